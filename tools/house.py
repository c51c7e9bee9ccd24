"""`python -m tools.house`: the figures of issue 35: what it began with, what they are now, and what it aims at.

Source is counted by its syntax tree, work by a profiler, seconds as processor time of pairs of processes.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import os
import resource
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

__all__ = ["Work", "anys", "counted", "empties", "imported", "isinstances", "lines", "main", "ratio", "trees", "twice"]

ROOT = Path(__file__).parents[1]
_ROOMS = ("webhook", "strategies", "certs", "audit", "front", "kube", "muster")
_DECODER = ("strategies/documents/decoding.py", "webhook/kubeyaml/")
"""Folders and files, relative to the root, in which documents are decoded: their checks of shapes are their work."""
_UNNAMED = ("__init__", "__main__", "conftest")
_SHAPES = frozenset({"dict", "list", "Mapping", "str"})
_PARSER = ("muster.strategies.launches.launches", "parse", "argv")
"""Module, function and argument of what reads a command line."""
_JOB = ROOT / "manifests" / "examples" / "01-trl-sft-two-nodes.yaml"
_CHECK = f"import sys; sys.argv[1:] = ['check', {str(_JOB)!r}]; from muster.webhook.cli.main import main; main()"
"""As its user runs it: `main` defers modules only where it reads the arguments of the process."""
_PAIRS = 7


def main() -> int:
    """Print the table."""
    print(f"{'figure':68}{'issue':>9}{'now':>9}{'aim':>9}")
    for name, was, now, aim in _rows():
        print(f"{name:68}{was:>9}{now:>9,}{aim:>9}")
    return 0


def _rows() -> Iterator[tuple[str, str, float, str]]:
    every = _files()
    product = [each for each in every if each.parts[0] in _ROOMS]
    sessions = [each for each in every if each.parts[0] == "sessions"]
    parsed = [*trees(ROOT / each for each in product if not str(each).startswith(_DECODER))]
    yield f"lines of {' + '.join(_ROOMS)}", "65,900", lines(ROOT / each for each in product), "40,000"
    yield "lines of sessions", "", lines(ROOT / each for each in sessions), ""
    yield "modules there", "517", len(product), "330"
    yield "names used twice there", "71", len(twice(product)), "0"
    yield "names used twice there and in sessions", "124", len(twice([*product, *sessions])), "0"
    yield "names used twice in the whole tree, tests included", "", len(twice(every)), "0"
    yield "`Any`", "1,500", sum(map(anys, parsed)), "100"
    yield "`or {}`, `or ()`", "459", sum(map(empties, parsed)), "0"
    yield "isinstance of dict, list, Mapping or str", "726", sum(map(isinstances, parsed)), "0"
    aims = {"mutate": ("532", "250", "63", "30"), "validate": ("1,380", "500", "107", "50")}
    for phase, work in _reviews():
        calls, most, modules, few = aims[phase]
        yield f"CREATE of a TrainJob, {phase}: calls of own functions", calls, sum(work.calls.values()), most
        yield f"CREATE of a TrainJob, {phase}: modules", modules, len({name for name, _ in work.calls}), few
        first = phase == "mutate"
        yield f"CREATE of a TrainJob, {phase}: dumps", "10" if first else "", work.json["dumps"], "3" if first else ""
        yield f"CREATE of a TrainJob, {phase}: loads", "1" if first else "", work.json["loads"], "1"
        yield f"CREATE of a TrainJob, {phase}: one argv is parsed", "" if first else "4", max(work.parsed.values()), "1"
    loaded = imported(_CHECK)
    own = [each for each in loaded if each.partition(".")[0] == "muster"]
    yield "muster check FILE: own modules imported", "289", len(own), "120"
    yield "muster check FILE: all modules imported beyond those of python", "", len(loaded), ""
    yield "muster check FILE: its time beside `import yaml`", "15.6", ratio(_CHECK, "import yaml", _PAIRS), "3"


def _files() -> list[Path]:
    """Return the Python files of the tree, those that are not committed yet included; links are not followed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [Path(each) for each in dict.fromkeys(listed) if (ROOT / each).is_file()]


def lines(files: Iterable[Path]) -> int:
    """Count the lines of files, blank ones included."""
    return sum(file.read_bytes().count(b"\n") for file in files)


def twice(files: Iterable[Path]) -> set[str]:
    """Return the names that several modules have; those that Python or pytest gives do not count."""
    names = Counter(file.stem for file in files if file.stem not in _UNNAMED)
    return {name for name, count in names.items() if count > 1}


def trees(files: Iterable[Path]) -> Iterator[ast.Module]:
    """Yield the syntax tree of each file."""
    return (ast.parse(file.read_bytes()) for file in files)


def anys(tree: ast.AST) -> int:
    """Count where `Any` stands, imports aside."""
    return _count(tree, lambda node: isinstance(node, ast.Name) and node.id == "Any")


def empties(tree: ast.AST) -> int:
    """Count `... or {}` and `... or ()`."""
    return _count(tree, lambda node: isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and _is_empty(node))


def _is_empty(node: ast.BoolOp) -> bool:
    return ast.unparse(node.values[-1]) in ("{}", "()")


def isinstances(tree: ast.AST) -> int:
    """Count calls of isinstance that ask for a shape of JSON: dict, list, Mapping or str, alone or with others."""
    return _count(tree, lambda node: isinstance(node, ast.Call) and bool(_SHAPES & _asked(node)))


def _asked(call: ast.Call) -> set[str]:
    if not (isinstance(call.func, ast.Name) and call.func.id == "isinstance" and len(call.args) > 1):
        return set()
    return {each.id for each in ast.walk(call.args[1]) if isinstance(each, ast.Name)}


def _count(tree: ast.AST, wanted: Callable[[ast.AST], bool]) -> int:
    return sum(map(wanted, ast.walk(tree)))


@dataclass(slots=True)
class Work:
    """What one call did.

    Attributes:
        calls: of each function, as (module, name); comprehensions and generator expressions are none.
        json: of `dumps` and `loads`, those of orjson and of the standard library.
        parsed: how often each command line was read.
    """

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    json: Counter[str] = field(default_factory=Counter)
    parsed: Counter[tuple[str, ...]] = field(default_factory=lambda: Counter({(): 0}))


def counted(call: Callable[[], object], package: str = "muster", parser: Sequence[str] = _PARSER) -> Work:
    """Return what a call does in the modules of a package."""
    work, (home, name, argument) = Work(), parser

    def profile(frame: FrameType, event: str, called: object) -> None:
        function, module = frame.f_code.co_name, str(frame.f_globals.get("__name__"))
        if event == "c_call" and getattr(called, "__module__", "") == "orjson":
            work.json[str(getattr(called, "__name__", ""))] += 1
        elif event == "call" and module == "json":
            work.json[function] += 1
        elif event == "call" and f"{module}.".startswith(f"{package}.") and not function.startswith("<"):
            work.calls[module, function] += 1
            if (module, function) == (home, name):
                work.parsed[tuple(frame.f_locals[argument])] += 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return work


def _reviews() -> Iterator[tuple[str, Work]]:
    """Yield each phase of a TrainJob, from the bytes of its body to those of its answer and its record, when warm."""
    measure = importlib.import_module("tests.costs.measure")  # has no types, as all tests
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        for name, call in measure.cases(loop):
            kind, phase = name.split(", ")
            if kind == "TrainJob":
                call()
                yield phase, counted(call)


def imported(program: str) -> set[str]:
    """Return the modules that a program has run at its end and an interpreter that does nothing has not.

    Deferred modules of which nothing was used are none of them.
    """
    return _modules(program) - _modules("")


def _modules(program: str) -> set[str]:
    ran = "(name for name, module in sys.modules.items() if type(module).__name__ != '_LazyModule')"
    code = f"import sys\ntry:\n    exec({program!r})\nfinally:\n    print(*{ran}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stderr.splitlines()[-1].split())


def ratio(program: str, other: str, pairs: int) -> float:
    """Return how much processor time a program takes beside another, both with their bytecode in caches: the median."""
    for each in (program, other):
        _seconds(each)
    return round(statistics.median(_seconds(program) / _seconds(other) for _ in range(pairs)), 1)


def _seconds(program: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    cached = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT, env=cached)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
