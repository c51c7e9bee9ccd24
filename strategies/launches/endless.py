"""Endless: containers whose program only waits or serves, and never ends by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from muster.strategies import shell
from muster.strategies.jobs.jobs import Job, once
from muster.strategies.launches import launches
from muster.strategies.shell import Command, Scope

__all__ = ["Reader", "never_ends", "of_job", "runs_for_ever"]

_MOST_READ = 65_536
_WORD = r"[^A-Za-z_]+"
_FOLLOWING = frozenset({"-f", "-F", "--follow", "--follow=name", "--follow=descriptor"})
_SERVERS = frozenset(
    {"tensorboard", "redis-server", "memcached", "prometheus", "node_exporter", "dcgm-exporter", "etcd", "aim"}
    | {"jupyter-lab", "jupyter-notebook", "code-server", "nvidia-smi-exporter", "dcgm_exporter"}
)
"""Programs that serve until they are stopped, whatever their arguments are but for those of `_ENDING`."""
_SUBCOMMANDS = {
    "jupyter": frozenset({"lab", "notebook", "server"}),
    "mlflow": frozenset({"server", "ui"}),
    "minio": frozenset({"server"}),
    "wandb": frozenset({"server"}),
}
_MODULES = frozenset({"http.server", "tensorboard.main", "jupyterlab", "notebook"})
_FOREGROUND = r"-[a-zA-Z]*D"
_ENDING = frozenset({"--help", "-h", "--version", "-v", "--daemonize", "-d", "daemonize", "--inspect"})


class Reader:
    """Says which containers of a job never end; it reads `_MOST_READ` characters of command lines that differ."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], bool] = {}
        self._room = _MOST_READ

    def never_ends(self, argv: tuple[str, ...]) -> bool:
        """Whether a command line certainly never ends by itself."""
        if argv not in self._known:
            self._room -= sum(map(len, argv)) + len(argv)
            self._known[argv] = self._room >= 0 and never_ends(argv)
        return self._known[argv]


@once
def of_job(_job: Job) -> Reader:
    """Return the reader of a job, which all checks share."""
    return Reader()


def never_ends(words: Sequence[str]) -> bool:
    """Whether a command line certainly never ends by itself; a shell's text is read."""
    if words and launches.program(words[0]) in launches.SHELLS:
        called = shell.invoked(words)
        if called.text is None or "trap" in called.text or "kill" in called.text:
            return False
        if _is_loop(called.text):
            return True
        found, why = shell.run(called.text, Scope())
        if _waits_for_a_server(called.text, found):
            return not why
        words = found[-1].words if found and not why and found[-1].certain else ()
    return bool(words) and runs_for_ever(words)


def _waits_for_a_server(text: str, found: Sequence[Command]) -> bool:
    """Whether a text ends with a `wait` for all that it started, among which is what serves for ever."""
    last = text.rstrip("; \n\t").rpartition("\n")[2].rpartition(";")[2].rpartition("&")[2]
    return last.strip() == "wait" and any(each.wave and each.words and _serves(each.words) for each in found)


def _serves(words: Sequence[str]) -> bool:
    return runs_for_ever(words) or (launches.program(words[0]) == "vllm" and list(words[1:2]) == ["serve"])


def runs_for_ever(words: Sequence[str]) -> bool:
    """Whether a command waits or serves for ever."""
    program, rest = launches.program(words[0]), words[1:]
    if program == "tail":
        following = any(word in _FOLLOWING or (word[:2] == "-f" and word[2:].isdigit()) for word in rest)
        return following and not any(word.startswith("--pid") for word in rest)
    if program == "sleep":
        return any(word.lower() in ("inf", "infinity") for word in rest)
    if not _ENDING.isdisjoint(rest):
        return False
    if program.startswith("python"):
        return len(rest) > 1 and rest[0] == "-m" and rest[1] in _MODULES
    if program in _SUBCOMMANDS:
        return bool(rest) and rest[0] in _SUBCOMMANDS[program]
    # sshd leaves a daemon behind and ends, unless it is told to stay in the foreground (sshd(8)).
    return program in _SERVERS or (program == "sshd" and any(re.match(_FOREGROUND, word) for word in rest))


def _is_loop(text: str) -> bool:
    """Whether a text ends with a loop without a condition, which nothing in it leaves."""
    start = max(text.rfind(f"while {word}") for word in ("true", ":", "[ 1 ]", "[[ 1 ]]"))
    body = text[start:].rstrip("; \n\t")
    words = set(re.split(_WORD, body)) if start >= 0 else set()
    return body.endswith("done") and bool(words) and not words & {"break", "exit", "return", "wait", "exec"}
