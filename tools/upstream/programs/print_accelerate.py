"""Prints the tables of the installed accelerate as JSON: run by a python that has accelerate, never imported."""

from __future__ import annotations

import importlib
import json
import sys

from tools.upstream.programs.argparse_tables import entries

if __name__ == "__main__":
    parser = importlib.import_module("accelerate.commands.launch").launch_command_parser()
    sys.stdout.write(json.dumps({"flags": {"allow_abbrev": parser.allow_abbrev, "launch": entries(parser)}}))
