"""Programs: a command whose first word no kernel can execute, and words that only a shell understands.

The kernel executes a file with an execute bit, and hands it all other words (Kubernetes: the entrypoint "is not
executed within a shell"). Files of a ConfigMap, Secret, projected or downwardAPI volume have the mode 0644 unless the
volume says otherwise (core/v1, `defaultMode`), and not even root can execute them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies import shell
from muster.strategies.documents import loose
from muster.strategies.launches import launches
from muster.strategies.launches.launches import Launcher

__all__ = ["Fault", "Volumes", "check"]

Fault = tuple[int, str, str, bool]
"""The word of the command line, what is wrong, the rule, and whether it certainly fails."""

_MODES = ("configMap", "secret", "projected", "downwardAPI")
_MODE = 0o644
_EXECUTE = 0o111
_LONGEST = 4_096  # characters of a path
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_BUILTINS = frozenset({"cd", "export", "source", ".", "set", "ulimit", "umask", "pushd", "eval", "exec", "trap"})
_PREPARING = frozenset({"pip", "pip3", "apt-get", "apt", "mkdir", "huggingface-cli", "hf", "nvidia-smi"})
_OPERATORS = frozenset({"&&", "||", "2>&1"})
"""Words that are no value of a flag; `|` or `;` may be one."""
_MOST = 256  # words
_DASHES = re.compile(r"[\u2010-\u2015\u2212][-\u2010-\u2015\w]")
"""A word that begins with a dash of a text editor where a flag begins with a hyphen."""


class Volumes:
    """The volumes of a pod, each of which is looked at once for all containers.

    Args:
        volumes: as the pod and its patches have them.
    """

    def __init__(self, volumes: Sequence[Mapping[str, Any]]) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        for each in volumes:
            self._named.setdefault(str(each.get("name")), each)
        self._lacking: dict[str, bool] = {}

    def is_of_objects(self, name: str) -> bool:
        """Whether a volume holds files of objects of the API server, which nobody can change."""
        return any(isinstance(self._named.get(name, {}).get(member), dict) for member in _MODES)

    def lacks_execute(self, name: str) -> bool:
        """Whether the files of a volume have no execute bit."""
        if name not in self._lacking:
            self._lacking[name] = _lacks_execute(self._named.get(name, {}))
        return self._lacking[name]

    def mode_at(self, path: str, mounts: Sequence[Any]) -> int | None:
        """Return the mode of the files of the volume that holds a path; None where there is none, or they differ."""
        volume = self._named.get(_volume_of(path, mounts) or "", {})
        source = next((volume[member] for member in _MODES if isinstance(volume.get(member), dict)), None)
        if source is None or any("mode" in each for each in loose.items(source, "items")) or source.get("sources"):
            return None
        mode = source.get("defaultMode", _MODE)
        return mode if type(mode) is int else None


def check(argv: Sequence[str], volumes: Volumes, mounts: Sequence[Any]) -> Iterator[Fault]:
    """Check one command line.

    Args:
        argv: command and arguments, at least one word.
        volumes: of the pod.
        mounts: the `volumeMounts` of the container.
    """
    first = argv[0]
    name = launches.program(first)
    if _ASSIGNMENT.match(first) or first in _BUILTINS:
        what = "is a command of a shell" if first in _BUILTINS else "sets a variable as a shell would"
        message = f"{what}, and a container starts its program without one; write [bash, -c, TEXT]"
        yield 0, message, "core/no-shell", True
        return
    if _is_plain_file(first, volumes, mounts):
        message = (
            "is a file of a volume without an execute bit (mode 0644 by default), so it cannot be started; set "
            "defaultMode: 0755, or start it with its interpreter"
        )
        yield 0, message, "core/not-executable", True
    if not "".join(argv).isascii():
        yield from _dashes(argv)
    if mounts and name in launches.SHELLS:
        yield from _changed(argv, volumes, mounts)
    known = launches.parse(argv[:_MOST]).launcher not in (Launcher.OTHER, Launcher.NONE, Launcher.SHELL)
    operator = next((index for index, word in enumerate(argv[:_MOST]) if word in _OPERATORS), None)
    if operator is not None and (known or name in _PREPARING):
        message = f"reaches {name} as a word, because no shell is there to read it; start a shell: [bash, -c, TEXT]"
        yield operator, message, "core/no-shell", not known


def _dashes(argv: Sequence[str]) -> Iterator[Fault]:
    for index, word in enumerate(argv[:_MOST]):
        if _DASHES.match(word):
            message = "begins with a long dash, so no program takes it for a flag; write a hyphen (-)"
            yield index, message, "core/dash", False
            return


def _changed(argv: Sequence[str], volumes: Volumes, mounts: Sequence[Any]) -> Iterator[Fault]:
    """Report a `chmod` of a file that nobody can change, where the shell ends by its failure."""
    called = shell.invoked(argv)
    if called.text is None or "chmod" not in called.text or len(called.text) > shell.MAX_TEXT:
        return
    try:
        statements = shell.parse(called.text)
    except shell.Unreadable:
        return
    errexit = "errexit" in called.options
    for statement in statements:
        every = [shell.plain_words(each.parts[0]) if len(each.parts) == 1 else [] for _, each in statement.items]
        errexit = errexit or any(words[:1] == ["set"] and words[1:2] and "e" in words[1] for words in every)
        signs = {sign for sign, _ in statement.items[1:]}
        for words, following in zip(every, [*statement.items[1:], None], strict=True):
            ends = "||" not in signs and (following is not None or errexit)
            target = next((word for word in words[1:] if _is_of_objects(word, volumes, mounts)), None)
            if ends and words[:1] == ["chmod"] and target is not None:
                message = (
                    f"chmod changes no file of a ConfigMap or Secret ({target}), whose volume is read-only, and the "
                    "shell ends there; set defaultMode: 0755, or start the file with bash"
                )
                yield list(argv).index(called.text), message, "core/read-only-file", True
                return


def _is_of_objects(path: str, volumes: Volumes, mounts: Sequence[Any]) -> bool:
    volume = _volume_of(path, mounts)
    return volume is not None and volumes.is_of_objects(volume)


def _is_plain_file(path: str, volumes: Volumes, mounts: Sequence[Any]) -> bool:
    """Whether a path is a file of a volume that gives it no execute bit."""
    volume = _volume_of(path, mounts)
    return volume is not None and volumes.lacks_execute(volume)


def _volume_of(path: str, mounts: Sequence[Any]) -> str | None:
    """Return the name of the volume that holds a path; None where none does."""
    if not path.startswith("/") or len(path) > _LONGEST:
        return None
    inside = [each for each in mounts if isinstance(each, dict) and _holds(str(each.get("mountPath") or ""), path)]
    if not inside:
        return None
    mount = max(inside, key=lambda each: len(str(each.get("mountPath"))))
    return str(mount.get("name"))


def _lacks_execute(volume: Mapping[str, Any]) -> bool:
    source = next((volume[member] for member in _MODES if isinstance(volume.get(member), dict)), None)
    if source is None:
        return False
    parts = [part for each in loose.items(source, "sources") for part in each.values() if isinstance(part, dict)]
    listed = [item for each in (source, *parts) for item in loose.items(each, "items")]
    default = source.get("defaultMode")
    modes = [
        default if default is not None else _MODE,
        *(each.get("mode") for each in listed),
    ]
    return not any(mode & _EXECUTE for mode in modes if isinstance(mode, int))


def _holds(mount: str, path: str) -> bool:
    return bool(mount) and (path == mount or path.startswith(f"{mount.rstrip('/')}/"))
