"""`muster init`: writes a job to begin with, and checks it before anybody else does.

A file of `starter_templates` has the blanks of `string.Template`, and comments for those who train. Lines that begin
with `#volume|` are part of the job when it has a volume for what it writes, and a comment in it otherwise.
"""

from __future__ import annotations

import argparse
import sys
from importlib import resources
from pathlib import Path
from string import Template

from muster.webhook import cli
from muster.webhook.cli import cases, findings_report, problems
from muster.webhook.cli.cases import Case
from muster.webhook.cli.problems import CommandError

__all__ = ["run"]

_MARK = "#volume|"
_VOLUMES = ("trl-sft", "trl-dpo", "trl-grpo", "torch")


def run(args: argparse.Namespace) -> int:
    """Write a job to standard output or to a file; see `commandline.json` for the arguments."""
    if args.volume and args.kind not in _VOLUMES:
        raise CommandError(f"--volume: a job of {args.kind} has no use for one; only {', '.join(_VOLUMES)} have")
    text = _text(args)
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


def _text(args: argparse.Namespace) -> str:
    """Return the job as YAML with comments; its nodes are Kubernetes nodes, of vLLM servers."""
    name, nodes, gpus = args.name or args.kind, args.nodes, args.gpus
    output = f"/results/{name}" if args.volume else "/tmp/output"  # noqa: S108  # in the pod
    blanks = {"name": name, "nodes": nodes, "gpus": gpus, "world": nodes * gpus, "output": output}
    results = "\n".join(_MARK + line for line in _read("results.part").splitlines())
    parts = {
        "results": Template(results).substitute(blanks, volume=args.volume or "your-claim"),
        "memory": _read("memory.part").rstrip("\n"),
    }
    lines = Template(_read(f"{args.kind}.yaml")).substitute(blanks, **parts).splitlines()
    return "".join(f"{_line(each, active=bool(args.volume))}\n" for each in lines)


def _line(line: str, *, active: bool) -> str:
    inside = line.removeprefix(_MARK)
    if inside == line or active or inside.lstrip().startswith("#"):
        return inside
    return f"  # {inside.removeprefix('  ')}"


def _read(name: str) -> str:
    return resources.files(cli).joinpath("starter_templates", name).read_text(encoding="utf-8")
