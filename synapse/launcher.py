#!python
"""The installed `synapse` command, as a script of its own.

The wrapper that pip would write imports `re`, which costs half as much as a whole call; and
the interpreter's tidying up at the end costs another tenth, with nothing left to tidy.
"""

import os

from synapse.main import main

# main() has flushed everything it wrote.
os._exit(main())
