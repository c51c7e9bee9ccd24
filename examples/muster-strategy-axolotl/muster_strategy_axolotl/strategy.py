"""The axolotl strategy: `axolotl train` gets the launcher that reads what Trainer injects.

`axolotl train CONFIG` starts accelerate by default, and accelerate ignores Trainer's PET_* env: every node trains alone
and exits with 0 (kubeflow/trainer KEP-2839, the table of launchers). With `--launcher torchrun` it starts torchrun,
which reads them. Rendezvous env, process count and the checks of the runtime are the same for every framework on
torch.distributed, and come from Muster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.strategies import (
    Changes,
    Finding,
    Job,
    Site,
    TorchFamily,
    error,
    find_site,
    read_topology,
    unenforced,
    warning,
)

__all__ = ["AxolotlStrategy"]

_FLAG = "--launcher"
_FOR_THE_LAUNCHER = "--"


class AxolotlStrategy(TorchFamily):
    """Serves `trainer.kubeflow.org/framework: axolotl`."""

    framework = "axolotl"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Add `--launcher torchrun` to an `axolotl train` of several processes that names no launcher."""
        self.prepare(job, changes)
        site, topology = find_site(job), read_topology(job)
        if site is None or job.owner is not None or not topology.is_distributed:
            return
        train = _read(site.argv)
        if train is None:
            for finding in unenforced(site, topology, self.framework):
                changes.report(finding)
        elif train.launcher is None and not train.launcher_args:
            reason = f"axolotl's default launcher, accelerate, ignores PET_* and would not start {topology.size}"
            _append(site, changes, (_FLAG, "torchrun"), reason)
        elif train.launcher is None:
            message = (
                "these are arguments of accelerate, so the launcher was not changed; check that they span all nodes"
            )
            changes.report(warning(f"{site.place}.args", train.launcher_args[0], message, rule="axolotl/launcher-args"))

    def validate(self, job: Job) -> Iterable[Finding]:
        """Refuse a launcher with which every node would train alone."""
        yield from super().validate(job)
        site, topology = find_site(job), read_topology(job)
        train = _read(site.argv) if site else None
        if site is None or train is None or train.launcher in (None, "torchrun") or train.launcher_args:
            return
        if topology.is_distributed and job.owner is None:
            message = (
                f"would not start {topology.size}, because it ignores Trainer's PET_* env; use torchrun, or remove it"
            )
            yield error(site.locate(train.launcher_at), train.launcher, message, rule="axolotl/launcher")


@dataclass(frozen=True, slots=True)
class _Train:
    """An `axolotl train` command line: its launcher, the launcher's index, and the words after `--`."""

    launcher: str | None
    launcher_at: int
    launcher_args: tuple[str, ...]


def _read(argv: Sequence[str]) -> _Train | None:
    """Read a command line; None when it is not `axolotl train`."""
    words = tuple(argv)
    if words[:1] and words[0].rsplit("/", 1)[-1] == "axolotl":
        own = words[1:]
    elif words[1:3] == ("-m", "axolotl.cli.main"):
        own = words[3:]
    else:
        return None
    if own[:1] != ("train",):
        return None
    end = words.index(_FOR_THE_LAUNCHER) if _FOR_THE_LAUNCHER in words else len(words)
    launcher, place = None, 0
    for index, word in enumerate(words[:end]):
        flag, equals, value = word.partition("=")
        if flag == _FLAG:
            place = index if equals else index + 1
            launcher = value if equals else (*words[:end], "")[place]
    return _Train(launcher, place, words[end + 1 :])


def _append(site: Site, changes: Changes, words: Sequence[str], reason: str) -> None:
    """Append words to args where there are any, else to the command."""
    command, args = (site.command, (*site.args, *words)) if site.args else ((*site.command, *words), site.args)
    site.write(changes, command, args, rule="axolotl/launcher", reason=reason)
