"""`python tests/record/part.py FRACTION`: the same as `make record` for a part of the inputs, drawn evenly.

Run it in a checkout that has build/record with the answers of one commit.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))
from tests.record import differences


def main() -> int:
    """Answer a part of the inputs with the checkout in the working directory, compare, print."""
    step = max(1, round(1 / float(sys.argv[1])))
    folder = Path("build/record")
    (inputs,) = folder.glob("*-inputs")
    before = inputs.with_name(f"{inputs.name.removesuffix('-inputs')}.jsonl")
    with tempfile.TemporaryDirectory() as made:
        kept = set()
        for kind, pattern in (("files", "*.yaml"), ("reviews", "*.json")):
            (Path(made) / kind).mkdir()
            for path in sorted((inputs / kind).glob(pattern))[::step]:
                kept.add(f"{kind}/{path.name}")
                beside = path.with_name(f"{path.name.partition('.')[0]}.yaml")
                for each in {path, beside} if kind == "reviews" else {path}:
                    if each.exists():
                        shutil.copy(each, Path(made) / kind / each.name)
        old, new = Path(made) / "old.jsonl", Path(made) / "new.jsonl"
        lines = before.read_text().splitlines()
        old.write_text("".join(f"{each}\n" for each in lines if json.loads(each)["name"] in kept))
        command = [sys.executable, Path(__file__).with_name("answers.py"), made, "1"]
        with new.open("wb") as out:
            subprocess.run(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, stdout=out, check=True)
        found = differences.compare(old, new)
    print(*differences.lines(found), sep="\n")
    print(f"{len(kept)} inputs, {len(found)} kinds of differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
