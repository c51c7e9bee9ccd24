"""Configurations: files of settings in ConfigMaps of the input, that a launch names, written into its command line.

vLLM and TRL read a file as further flags, before those of the command line, which win (vLLM 0.31
`utils/argparse_utils.py` load_config_file, trl 1.16 `scripts/utils.py` parse_args_and_config). Accelerate reads one of
its own, which is written by the shell here, as a job may do itself.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strategies.documents.findings import Finding, beginning, warning
from strategies.frameworks.trl import flags as trl_flags
from strategies.frameworks.trl import invocations
from strategies.frameworks.trl import parsing as of_trl
from strategies.frameworks.trl.invocations import Invocation
from strategies.frameworks.vllm import servers
from strategies.launches import launches, readings
from strategies.launches.invocations import invoked
from strategies.launches.launches import Launch, Launcher
from webhook import kubeyaml
from webhook.cli.beside import files
from webhook.cli.beside.files import Seen
from webhook.cli.beside.inputs import Inputs
from webhook.cli.beside.places import Held

__all__ = ["apply", "faults"]

_LONGEST = 16_384  # characters of a file, which accelerate's reader takes too
_MOST = 500  # values of a file
_FILES = ("config_file", "accelerate_config")
_FLAG = "--config"
_FOLDER = re.compile(r"\bcd +[\"']?(/[\w./-]*)")
_END = "END_OF_SETTINGS"


def apply(held: Held, words: Sequence[str], inputs: Inputs) -> tuple[Sequence[str], str]:
    """Return a command line with what its files of settings hold, and the file; () where it names none of the input.

    Args:
        held: the container.
        words: its command line.
        inputs: all documents of the input.
    """
    if not any("config" in word for word in words):
        return (), ""
    for launch in readings.read(words).launches:
        if launch.launcher in (Launcher.ACCELERATE, Launcher.TRL):
            name = next((launch.values[option] for option in _FILES if option in launch.values), "")
            seen = _find(held, name, words, inputs) if name not in launch.written else None
            if seen is not None and seen.text and _END not in seen.text:
                return _behind(words, f"cat > {name} <<'{_END}'\n{seen.text.rstrip()}\n{_END}\n"), _told(seen)
        if _FLAG in launch.rest[:-1]:
            name = launch.rest[launch.rest.index(_FLAG) + 1]
            seen = _find(held, name, words, inputs)
            flags = _flags(launch, seen.text) if seen is not None and seen.text else None
            written = _replaced(words, name, flags) if flags else ()
            if seen is not None and written:
                return written, _told(seen)
    return (), ""


def faults(held: Held, inputs: Inputs) -> Iterator[Finding]:
    """Report members of files for TRL at which it stops: a file's are not abbreviated, and a list is written as one.

    TRL takes what a file says as it stands, and converts no text that stands for a list.
    """
    words = held.command
    for launch in readings.read(words).launches if any(_FLAG in word for word in words) else ():
        script = invocations.within(launch) if _FLAG in launch.rest[:-1] else None
        seen = _find(held, launch.rest[launch.rest.index(_FLAG) + 1], words, inputs) if script else None
        if script is None or seen is None:
            continue
        for key, value in (_read(seen.text) or {}).items():
            spec = _spec(launch, script, key)
            if spec is None and key not in _OF_TRL:
                near = trl_flags.closest(script.method, key)
                hint = f"; did you mean {near[2:]}?" if near else "; remove it"
                message = f"in {_told(seen)}: {script.called} has no argument of this name, and stops{hint}"
                yield held.report(warning, "command", beginning(key, _SHOWN), message, "trl/unknown-flag")
            elif key in _LISTED and isinstance(value, str):
                cure = f"write [{beginning(value, _SHOWN)}]"
                message = f"in {_told(seen)}: the script takes a list, and each letter of a text; {cure}"
                yield held.report(warning, "command", beginning(key, _SHOWN), message, "trl/arguments")


def _spec(launch: Launch, script: Invocation, key: str) -> trl_flags.FlagSpec | None:
    """Return the flag of a member of a file; one of accelerate's only where TRL itself starts it."""
    found = trl_flags.spec(script.method, f"--{key}")
    return trl_flags.launcher_spec(f"--{key}") if found is None and launch.launcher is Launcher.TRL else found


_SHOWN = 40
_OF_TRL = frozenset({"env", "accelerate_config"})
_LISTED = frozenset({"reward_funcs"})
"""Lists that no configuration of TRL makes of a text, as it does of `loss_type` or `lora_target_modules`."""


def _told(seen: Seen) -> str:
    return f"{seen.path} of {seen.where}"


def _find(held: Held, name: str, words: Sequence[str], inputs: Inputs) -> Seen | None:
    """Return a file that a launch names, also from the folder into which its shell has gone."""
    if not name or "$" in name:
        return None
    folders = _FOLDER.findall(" ".join(words)) if not name.startswith("/") else ()
    path = posixpath.join(folders[0], name) if len(folders) == 1 else name
    seen = files.find(held, path, inputs)
    if seen is None or seen.secret or seen.text is None or len(seen.text) > _LONGEST:
        return None
    return seen


def _behind(words: Sequence[str], text: str) -> Sequence[str]:
    """Return a command line whose shell writes a file first."""
    called = invoked(words) if launches.program(words[0]) in launches.SHELLS else None
    if called is None:
        return ["bash", "-c", f"{text}exec {shlex.join(words)}"]
    if called.text is None:
        return ()
    at = list(words).index(called.text)
    return [*words[:at], text + called.text, *words[at + 1 :]]


def _replaced(words: Sequence[str], name: str, flags: Sequence[str]) -> Sequence[str]:
    """Return a command line with flags in the place of `--config FILE`."""
    for index, word in enumerate(words):
        if word == _FLAG and words[index + 1 : index + 2] == [name]:
            return [*words[:index], *flags, *words[index + 2 :]]
        if word.count(f"{_FLAG} {name}") == 1:
            return [*words[:index], word.replace(f"{_FLAG} {name}", shlex.join(flags)), *words[index + 1 :]]
    return ()


def _flags(launch: Launch, text: str) -> Sequence[str] | None:
    """Return the settings of a file as flags, but for those that the command line has; None where it is not read."""
    found = _read(text)
    if found is None:
        return None
    if servers.starts(launch):
        server = servers.of_launch(launch)
        taken = {*server.parsed.values, *server.parsed.off} if server is not None else set()
        return [word for key, value in found.items() if _dashed(key) not in taken for word in _of_vllm(key, value)]
    script = invocations.within(launch)
    if script is None:
        return None
    parsed = of_trl.parse(script.method, script.args)
    given = {each.name.lstrip("-") for each in parsed.given}
    left = {key: spec for key in found if key not in given and (spec := _spec(launch, script, key)) is not None}
    return [word for key, spec in left.items() for word in _of_trl(spec, found[key])]


def _read(text: str | None) -> Mapping[str, Any] | None:
    try:
        found = kubeyaml.load(text or "", most=_MOST)
    except kubeyaml.YamlError:
        return None
    return found if isinstance(found, dict) else None


def _dashed(key: str) -> str:
    return key.lstrip("-").replace("_", "-")


def _of_vllm(key: str, value: Any) -> Iterator[str]:
    if value is False:
        yield f"--no-{key}"
    elif value is True:
        yield f"--{key}"
    elif value != []:
        yield f"--{key}"
        yield from _words(value)


def _of_trl(spec: trl_flags.FlagSpec, value: Any) -> Iterator[str]:
    """Return a setting as a flag; none for one that no text can be, or that is off."""
    if value is None or value == [] or spec.kind.startswith("dict") or (spec.nargs == 0 and value is False):
        return
    yield f"--{spec.name}"
    yield from _words(value) if spec.nargs != 0 else ()


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from map(str, value)
    else:
        yield json.dumps(value) if isinstance(value, dict) else str(value)
