"""The providers of language models, one file each."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "choice", "offline", "provider")
