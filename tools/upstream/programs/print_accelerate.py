"""Prints the tables of the installed accelerate as JSON: run by a python that has accelerate, never imported.

Reads on stdin the options of `accelerate launch` that say where processes run, which `trl` takes too.
"""

from __future__ import annotations

import importlib
import json
import sys

from tools.upstream.programs.argparse_tables import options

OF_TRL = "accelerate-config:"
"""trl/cli/accelerate_config.py looks for it, before any parser."""


def main() -> None:
    """Print the table."""
    asked = json.load(sys.stdin)
    launch = options(importlib.import_module("accelerate.commands.launch").launch_command_parser())
    known = {OF_TRL, *launch["options"].split()}
    trl = {"options": " ".join(each for each in asked if each in known), "rules": {**launch["rules"], "anywhere": True}}
    sys.stdout.write(json.dumps({"launchers": {"launch": launch, "trl": trl}}))


if __name__ == "__main__":
    main()
