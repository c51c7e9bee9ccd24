"""Prints how corpus cases end where a version of a package is the shipped one: {case: "end, rules"}, as JSON.

Run: python -m tools.upstream.corpus_ends PACKAGE VERSION PATTERN; cases without the pattern are left out.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from typing import Any  # tests have no types
from unittest import mock

from muster.strategies import upstream

__all__ = ["main"]


def main(argv: list[str]) -> None:
    """Print the ends."""
    package, version, pattern = argv
    shipped = upstream.shipped
    with mock.patch.object(upstream, "shipped", lambda name: version if name == package else shipped(name)):
        # What is imported may read tables at once.
        cases: Any = importlib.import_module("tests.corpus.cases")
        names = [name for name in cases.names() if re.search(pattern, cases.path_of(name).read_text(encoding="utf-8"))]
        found = {name: cases.outcome(name) for name in names}
    ends = {
        name: f"{'|'.join(sorted(each.ends))} {', '.join(sorted(each.rules))}".strip() for name, each in found.items()
    }
    json.dump(ends, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
