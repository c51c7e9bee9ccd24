"""`python -m muster.sessions.cli`."""

import sys

from muster.sessions.cli.main import main

sys.exit(main())
