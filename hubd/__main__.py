"""The start of `hubd` and `python -m hubd`. Ctrl-C ends them without a traceback."""

import gc
import sys

INTERRUPTED = 130


def main() -> int:
    """Run one command and return the exit status."""
    try:
        # Imports create hardly any garbage, and a short command spends most of its time on them.
        gc.disable()
        from hubd import cli

        return cli.main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
