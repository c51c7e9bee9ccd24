"""Command lines that judge files, without a cluster: start-up, and documents per second, in turns."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import figures, reviews
from bench.peers import changes, gatekeepers, kyvernos, machines, markdown, plots
from e2e.cluster import builds, places
from e2e.cluster.errors import ClusterError

__all__ = ["NAME", "RAW", "TOOLS", "Call", "Tool", "documents", "measured", "plot", "table", "text", "usable", "wrong"]

NAME = "bench-offline"
"""The comments between which the page is written."""

RAW = "plots/peers-offline.csv"
"""Where the raw figures are, beside the page."""

_SETUP = """\
Measured on {day} on {machine}: files with one and with {many:,} TrainJobs of a TRL training, all of which pass, in
{rounds} rounds in turns, each process alone. Before, each tool had to show that it changes, or refuses, what it should.
gator has no command that mutates. [The raw figures]({raw})."""

_MANY = 1_000
_MATCHED = {"kinds": [{"apiGroups": ["trainer.kubeflow.org"], "kinds": ["TrainJob"]}]}
_RULE = {
    "operations": ["CREATE"],
    "apiGroups": ["trainer.kubeflow.org"],
    "apiVersions": ["v1alpha1"],
    "resources": ["trainjobs"],
}
_LAUNCHER = """\
import os, sys, time
null = os.open(os.devnull, os.O_RDWR)
quiet = [(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)]
began = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, used = os.wait4(pid, 0)
seconds = time.perf_counter() - began
cpu = used.ru_utime + used.ru_stime
print(os.waitstatus_to_exitcode(status), seconds, cpu, used.ru_maxrss)
"""
# A process of its own starts each tool: what a process had in memory before it became the tool counts as the tool's.

_COMMAND = json.dumps(changes.COMMAND)
_CHANGED = changes.COMMAND[0]
_VALIDATING = {
    "apiVersion": "policies.kyverno.io/v1",
    "kind": "ValidatingPolicy",
    "metadata": {"name": "peer"},
    "spec": {
        "matchConstraints": {"resourceRules": [_RULE]},
        "validationActions": ["Deny"],
        "validations": [{"expression": f"object.spec.trainer.numNodes <= {changes.MOST}", "message": "too many nodes"}],
    },
}
_MUTATING = {
    "apiVersion": "policies.kyverno.io/v1",
    "kind": "MutatingPolicy",
    "metadata": {"name": "peer"},
    "spec": {
        "matchConstraints": {"resourceRules": [_RULE]},
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {
                    "expression": f"[JSONPatch{{op: 'replace', path: '/spec/trainer/command', value: {_COMMAND}}}]"
                },
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Tool:
    """A command line that judges a file.

    Attributes:
        name: for the CSV.
        title: for people.
        module: what it is built from; None for Muster's own.
        command: from the folder of the binaries, that of the policies, and the file.
        policies: the files that it needs, by their names.
        shows: a word of its output that shows that it did its work; empty if it is to refuse the job of `wrong`.
    """

    name: str
    title: str
    module: builds.Module | None
    command: Callable[[Path, Path, Path], Sequence[str | Path]]
    policies: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict, repr=False)
    shows: str = ""


TOOLS = (
    Tool(
        "muster",
        "`muster check`: all checks of the job as its mutation leaves it",
        None,
        lambda _, __, file: (sys.executable, "-m", "muster", "check", "-f", file),
    ),
    Tool(
        "muster-render",
        "`muster render`: the job as its mutation leaves it",
        None,
        lambda _, __, file: (sys.executable, "-m", "muster", "render", "-f", file),
        shows=_CHANGED,
    ),
    Tool(
        "kyverno-mutating",
        "`kyverno apply`: a MutatingPolicy with one change",
        kyvernos.MODULE,
        lambda binaries, folder, file: (
            binaries / "kubectl-kyverno",
            "apply",
            folder / "mutating.yaml",
            "--resource",
            file,
        ),
        {"mutating.yaml": _MUTATING},
        shows=_CHANGED,
    ),
    Tool(
        "kyverno-validating",
        "`kyverno apply`: a ValidatingPolicy with one rule",
        kyvernos.MODULE,
        lambda binaries, folder, file: (
            binaries / "kubectl-kyverno",
            "apply",
            folder / "validating.yaml",
            "--resource",
            file,
        ),
        {"validating.yaml": _VALIDATING},
    ),
    Tool(
        "gator",
        "`gator test`: a constraint with one rule in Rego",
        gatekeepers.MODULE,
        lambda binaries, folder, file: (
            binaries / "gator",
            "test",
            f"--filename={folder / 'template.yaml'}",
            f"--filename={folder / 'constraint.yaml'}",
            f"--filename={file}",
        ),
        {
            "template.yaml": gatekeepers.template("trainer.numNodes"),
            "constraint.yaml": gatekeepers.constraint(_MATCHED),
        },
    ),
)
"""All of them."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool.

    Attributes:
        tool: its name.
        round: its number, from 1.
        documents: in the file.
        seconds: by the clock.
        cpu: processor seconds.
        memory: resident MiB at its peak.
    """

    tool: str
    round: int
    documents: int
    seconds: float
    cpu: float
    memory: float


def documents(count: int) -> list[dict[str, Any]]:
    """Return TrainJobs of a TRL training, each of another name."""
    job: dict[str, Any] = yaml.safe_load(reviews.cluster_yaml().partition("---")[0])
    return [{**job, "metadata": {"name": f"llama-{number}"}} for number in range(count)]


def wrong() -> dict[str, Any]:
    """Return one that has more nodes than the rules allow, and whose launch spans fewer, which is Muster's to see."""
    (job,) = documents(1)
    job["spec"]["trainer"] |= {"numNodes": changes.MOST + 1, "command": ["torchrun", "--nnodes=3", "train.py"]}
    return job


def usable(folder: Path, tools: Sequence[Tool] = TOOLS, many: int = _MANY) -> tuple[list[Tool], dict[str, str]]:
    """Build the tools, write their files, and see that each does its work.

    Args:
        folder: for files, which must exist.
        tools: what is to be measured.
        many: documents in the larger file.

    Returns:
        Those that do, and why the others do not, by their titles.
    """
    for count in (1, many):
        _file(folder, count).write_text(yaml.dump_all(documents(count), Dumper=yaml.CSafeDumper), encoding="utf-8")
    bad = folder / "wrong.yaml"
    bad.write_text(yaml.safe_dump(wrong()), encoding="utf-8")
    failures = {}
    for tool in tools:
        try:
            for name, document in tool.policies.items():
                (folder / name).write_text(yaml.safe_dump(dict(document)), encoding="utf-8")
            _check(tool, tool.command(_binaries(tool), folder, _file(folder, 1)), refused=False)
            if not tool.shows:
                _check(tool, tool.command(_binaries(tool), folder, bad), refused=True)
        except (ClusterError, OSError) as error:
            failures[tool.title] = str(error)
    return [tool for tool in tools if tool.title not in failures], failures


def measured(folder: Path, tools: Sequence[Tool], rounds: int, many: int = _MANY) -> Iterator[Call]:
    """Call usable tools in turns, each with one document and with many.

    Raises:
        ClusterError: a tool fails.
    """
    found = {tool.name: _binaries(tool) for tool in tools}
    for number in range(1, rounds + 1):
        for tool in tools if number % 2 else tools[::-1]:
            for count in (1, many):
                command = tool.command(found[tool.name], folder, _file(folder, count))
                yield _called(tool, number, count, command)


def table(calls: Sequence[Call], tools: Sequence[Tool] = TOOLS) -> str:
    """Return the table, a row for each tool, which was called with one document and with many."""
    many = max(call.documents for call in calls)
    heads = ("command", "1 document, s", f"{many:,} documents, s", "CPU s", "documents/s beyond the first", "RSS, MiB")
    rows = []
    for tool in tools:
        mine = [call for call in calls if call.tool == tool.name]
        if not mine:
            continue
        one, all_of_them = ([call for call in mine if call.documents == count] for count in (1, many))
        least = min(call.seconds for call in one)
        rates = [(many - 1) / (call.seconds - least) for call in all_of_them if call.seconds > least]
        cells = (
            [call.seconds for call in one],
            [call.seconds for call in all_of_them],
            [call.cpu for call in all_of_them],
            rates,
            [call.memory for call in all_of_them],
        )
        rows.append((tool.title, *(str(figures.rounds(cell)) if cell else "-" for cell in cells)))
    return markdown.table(heads, rows)


def plot(calls: Sequence[Call], folder: Path, tools: Sequence[Tool] = TOOLS) -> str:
    """Write the plot of the seconds that the larger file takes; return the Markdown that shows it."""
    many = max(call.documents for call in calls)
    rows = []
    for tool in tools:
        taken = [each.seconds for each in calls if (each.tool, each.documents) == (tool.name, many)]
        rows += [(tool.title.replace("`", ""), figures.rounds(taken))] if taken else []
    return plots.save(folder, "peers-offline", f"Seconds for {many:,} TrainJobs", rows)


def text(calls: Sequence[Call], failures: Mapping[str, str]) -> str:
    """Return the part of the page: on what it was measured, the table, and what did not work."""
    rounds, many = len({call.round for call in calls}), max(call.documents for call in calls)
    said = _SETUP.format(day=machines.today(), machine=machines.described(), rounds=rounds, many=many, raw=RAW)
    lines = [f"* **{title} failed:** {machines.without_folders(why)}" for title, why in failures.items()]
    return "\n\n".join(part for part in (said, table(calls), "\n".join(lines)) if part)


def _file(folder: Path, count: int) -> Path:
    return folder / f"jobs-{count}.yaml"


def _binaries(tool: Tool) -> Path:
    return builds.binaries((), [tool.module]) if tool.module else places.REPOSITORY


def _check(tool: Tool, command: Sequence[str | Path], *, refused: bool) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=places.REPOSITORY)  # noqa: S603  # ours
    if (done.returncode != 0) != refused or tool.shows not in done.stdout:
        raise ClusterError(f"{tool.title} does not do its work: it ended with {done.returncode}: {done.stdout[-300:]}")


def _called(tool: Tool, number: int, count: int, command: Sequence[str | Path]) -> Call:
    words = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=places.REPOSITORY)  # noqa: S603  # ours
    status, seconds, cpu, memory = done.stdout.split()
    if status != "0":
        raise ClusterError(f"{tool.title}: {count} documents ended with {status}")
    return Call(tool.name, number, count, float(seconds), float(cpu), int(memory) / 1024)
