"""Run `synapse` as `python -m synapse`."""

import sys

from synapse.main import main

sys.exit(main())
