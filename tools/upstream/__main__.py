"""`make upstream FRAMEWORK=vllm VERSION=0.33.0`: take in a version, and say what changed.

Exit code 1: a row does not hold. 2: the version cannot be had, or its own code does not run here.
"""

from __future__ import annotations

import argparse
import sys

from e2e.cluster.errors import ClusterError
from tools.upstream import intake
from tools.upstream.known import PACKAGES
from tools.upstream.python_packages import FailedError


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.upstream", description=__doc__)
    parser.add_argument("framework", choices=sorted(PACKAGES))
    parser.add_argument("version", help="a release, such as its package index or module proxy calls it, without v")
    parser.add_argument("--with", dest="beside", nargs="*", default=[], help="requirements that it needs besides")
    parser.add_argument("--no-corpus", action="store_true", help="leave the corpus out, which takes minutes")
    args = parser.parse_args()
    line = ""
    try:
        for line in intake.take_in(PACKAGES[args.framework], args.version, args.beside, corpus=not args.no_corpus):
            print(line, flush=True)
    except (FailedError, ClusterError) as error:
        print(f"upstream: {error}", file=sys.stderr)
        return 2
    return int(line.endswith("do not hold"))


if __name__ == "__main__":
    sys.exit(main())
