#!python
"""The installed `synapse` command, as a script of its own.

pip's wrapper would import `re`, which takes half as long as a whole call. `os._exit` skips the
interpreter's cleanup, which takes another tenth.
"""

import os

from synapse.main import main

# main() has flushed stdout and stderr.
os._exit(main())
