"""Starters: jobs to begin with, one file for each, with comments for those who train and not for those who operate.

A file has the blanks of `string.Template`. Lines that begin with `#volume|` are part of the job when it has a volume
for what it writes, and a comment in it otherwise.
"""

from __future__ import annotations

from importlib import resources
from string import Template

from msgspec import Struct

__all__ = ["Wish", "text"]

_MARK = "#volume|"


class Wish(Struct, frozen=True):
    """What a starter is written for.

    Attributes:
        name: of the job.
        nodes: its number of Kubernetes nodes; of vLLM the number of servers.
        gpus: the number of GPUs on each.
        volume: name of the PersistentVolumeClaim that keeps what the job writes; "" for none.
    """

    name: str
    nodes: int = 1
    gpus: int = 1
    volume: str = ""


def text(kind: str, wish: Wish) -> str:
    """Return a job as YAML with comments.

    Args:
        kind: such as `trl-sft`; as `commandline.json` lists them.
        wish: what fills the blanks.
    """
    blanks = {
        "name": wish.name,
        "nodes": wish.nodes,
        "gpus": wish.gpus,
        "world": wish.nodes * wish.gpus,
        "volume": wish.volume or "your-claim",
        "output": f"/results/{wish.name}" if wish.volume else "/tmp/output",  # noqa: S108 - in the pod
    }
    results = "\n".join(_MARK + line for line in _read("results.part").splitlines())
    parts = {"results": Template(results).substitute(blanks), "memory": _read("memory.part").rstrip("\n")}
    lines = Template(_read(f"{kind}.yaml")).substitute(blanks, **parts)
    return "".join(f"{_line(each, active=bool(wish.volume))}\n" for each in lines.splitlines())


def _line(line: str, *, active: bool) -> str:
    if not line.startswith(_MARK):
        return line
    inside = line.removeprefix(_MARK)
    bare = inside.lstrip()
    if active or bare.startswith("#"):
        return inside
    return f"  # {inside.removeprefix('  ')}"


def _read(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
