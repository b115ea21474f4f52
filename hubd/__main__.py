"""Where `hubd` and `python -m hubd` begin: a Ctrl-C at any moment ends them without a trace."""

import sys

INTERRUPTED = 130


def main() -> int:
    """Run one command; returns the exit status."""
    try:
        # In here, because importing is most of what a short command does.
        from hubd import cli

        return cli.main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
