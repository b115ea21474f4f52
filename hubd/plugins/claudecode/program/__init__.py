"""The agent as a child process: which program, its command line, its environment, its end."""

from hubd.activation.lazy_module import lazy_modules

lazy_modules(__name__, "examination")
