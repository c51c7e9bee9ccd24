"""Prints the tables of the installed torch as JSON: run by a python that has torch, never imported."""

from __future__ import annotations

import importlib
import json
import sys

from tools.upstream.programs.argparse_tables import entries

# `distributed/launch.py` reads the same and `--use-env`.
if __name__ == "__main__":
    parser = importlib.import_module("torch.distributed.run").get_args_parser()
    sys.stdout.write(json.dumps({"flags": {"allow_abbrev": parser.allow_abbrev, "run": entries(parser)}}))
