"""Asks one checkout what it answers to inputs: one JSON object a line, sorted by name.

    python answers.py INPUTS PROCESSES > answers.jsonl       with the checkout first on PYTHONPATH

It asks by the command line alone, which outlives every change of the house, and imports nothing else of the checkout.
A process answers many inputs, because starting the command costs more than an answer. For each input it keeps what a
user or the API server gets: `verdict`, `findings` (severity, rule, field), `ends`, `changes` (op, path, value) and
`predicted`, the JobSet that Trainer would make.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import io
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["answer"]

_ENTRIES = ("muster.webhook.cli.main", "webhook.cli.main")
_BATCH = 20


def answer(path: Path) -> dict[str, Any]:
    """Return the answer to one input file."""
    try:
        found = _review(path) if path.suffix == ".json" else _file(path)
    except Exception as error:  # noqa: BLE001 - any end of the command is an answer
        found = {"verdict": f"raised {type(error).__name__}"}
    return {"name": f"{path.parent.name}/{path.name}", **found}


def _file(path: Path) -> dict[str, Any]:
    code, text = _run(["explain", "-o", "json", str(path)])
    sections = json.loads(text) if text.startswith(b"[") else []
    findings = [finding for section in sections for finding in section["findings"]]
    predicted = _run(["render", "--jobset", "-o", "json", str(path)])[1].decode()
    return {
        "verdict": f"explain ends with {code}",
        "findings": sorted(f"{each['severity']} {each['rule']} {each['field']}" for each in findings),
        "ends": [each["ending"]["kind"] for each in sections],
        "changes": sorted(_change(each) for section in sections for each in section["changes"]),
        "predicted": predicted,
    }


def _change(operation: dict[str, Any]) -> str:
    value = operation.get("after", operation.get("value"))
    return f"{operation['op']} {operation.get('pointer', operation['path'])} {json.dumps(value, sort_keys=True)}"


def _review(path: Path) -> dict[str, Any]:
    beside = path.with_name(f"{path.name.partition('.')[0]}.yaml")
    more = ["--runtimes", str(beside)] if beside.exists() else []
    found: dict[str, Any] = {"verdict": "", "changes": [], "findings": []}
    for phase in ("mutate", "validate"):
        code, text = _run(["review", "--phase", phase, *more], path.read_bytes())
        response = json.loads(text or b"{}").get("response", {})
        found["verdict"] += f"{phase} {code} {response.get('allowed')} {response.get('status', {}).get('code')}; "
        patch = json.loads(base64.b64decode(response.get("patch", "")) or b"[]")
        found["changes"] += sorted(map(_change, patch))
        found["findings"] += [*sorted(response.get("warnings", ())), response.get("status", {}).get("message", "")]
    return found


def _run(argv: list[str], given: bytes = b"") -> tuple[int, bytes]:
    """Run a command in this process; return its exit code and what it printed."""
    out, quiet = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    kept, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given), "utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(quiet):
            code = _entry().main(argv)
            out.flush()
    finally:
        sys.stdin = kept
    return code, out.buffer.getvalue()  # type: ignore[attr-defined]  # it is the BytesIO from above


def _entry() -> Any:
    # By its file: an editable install of another checkout offers the names that this one lacks.
    checkout = Path(os.environ.get("PYTHONPATH", ".").split(os.pathsep)[0])
    for name in _ENTRIES:
        if (checkout / name.replace(".", "/")).with_suffix(".py").exists():
            return importlib.import_module(name)
    raise SystemExit(f"no command is among {', '.join(_ENTRIES)}; put the checkout on PYTHONPATH")


def _main() -> None:
    folder, processes = Path(sys.argv[1]), int(sys.argv[2])
    paths = sorted([*folder.glob("files/*.yaml"), *folder.glob("reviews/*.json")])
    with multiprocessing.Pool(processes) as pool:
        for each in pool.imap(answer, paths, _BATCH):
            sys.stdout.write(json.dumps(each, sort_keys=True) + "\n")


if __name__ == "__main__":
    _main()
