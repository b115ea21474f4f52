"""`python -m hubd.plugins.claudecode.offline`."""

import sys

from hubd.plugins.claudecode.offline.agent import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
