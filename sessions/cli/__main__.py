"""`python -m sessions.cli`."""

import sys

from sessions.cli.main import main

sys.exit(main())
