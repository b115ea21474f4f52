"""`python -m hubd.offline_agent`."""

import sys

from hubd.offline_agent.agent import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
