"""`muster init`: writes a job to begin with, and checks it before anybody else does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from muster.webhook.cli import cases, findings_report, problems, starters
from muster.webhook.cli.cases import Case
from muster.webhook.cli.problems import CommandError

__all__ = ["run"]

_VOLUMES = ("trl-sft", "trl-dpo", "trl-grpo", "torch")


def run(args: argparse.Namespace) -> int:
    """Write a job to standard output or to a file; see `commandline.json` for the arguments."""
    if args.volume and args.kind not in _VOLUMES:
        raise CommandError(f"--volume: a job of {args.kind} has no use for one; only {', '.join(_VOLUMES)} have")
    wish = starters.Wish(args.name or args.kind, args.nodes, args.gpus, args.volume or "")
    text = starters.text(args.kind, wish)
    decided = _decided(str(args.write or f"{args.kind}.yaml"), text)
    for case in decided:
        problems.warn(findings_report.lines(case))
    if any(case.errors or case.failure for case in decided):
        problems.warn(["muster: nothing was written, because of the errors above; ask for another job"])
        return problems.FOUND
    if args.write is None:
        sys.stdout.write(text)
    else:
        _write(args.write, text, force=args.force)
    return problems.CLEAN


def _decided(name: str, text: str) -> list[Case]:
    setup = cases.of_text(name, text)
    return [setup.decide(source) for source in setup.sources if cases.is_job(source)]


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise CommandError(f"{path}: exists already and was not changed; --force replaces it") from error
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror or error}") from error
    problems.warn([f"muster: wrote {path}; read it, then `muster explain {path}` says what becomes of it"])
