"""`python -m hubd` is the same program as `hubd`."""

import sys

from hubd.cli import main

sys.exit(main())
