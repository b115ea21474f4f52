"""`python -m synapse` is the same program as `synapse`."""

import sys

from synapse.main import main

sys.exit(main())
