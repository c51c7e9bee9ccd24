"""Prints the tables of the installed torch as JSON: run by a python that has torch, never imported."""

from __future__ import annotations

import importlib
import json
import sys

from tools.upstream.programs.argparse_tables import options

if __name__ == "__main__":
    run = options(importlib.import_module("torch.distributed.run").get_args_parser())
    # `distributed/launch.py` has the same options, and this one.
    launch = {**run, "options": f"{run['options']} use-env"}
    sys.stdout.write(json.dumps({"launchers": {"torchrun": run, "distributed_launch": launch}}))
