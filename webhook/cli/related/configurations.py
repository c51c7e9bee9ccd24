"""Configurations: files of settings in ConfigMaps of the input, that a launch names, written into its command line.

vLLM and TRL read a file as further flags, before those of the command line, which win (vLLM
`utils/argparse_utils.py` load_config_file, trl `scripts/utils.py` parse_args_and_config). Accelerate reads one of
its own, which is written by the shell here, as a job may do itself.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from muster.strategies.documents import decoding, paths
from muster.strategies.documents.findings import Finding, beginning, error, warning
from muster.strategies.frameworks.flag_tables import FlagSpec
from muster.strategies.frameworks.trl import flags as of_trl
from muster.strategies.frameworks.trl import flags as trl_flags
from muster.strategies.frameworks.trl import invocations
from muster.strategies.frameworks.trl.invocations import Form, Invocation
from muster.strategies.frameworks.vllm import vllm_servers
from muster.strategies.launches import launches, readings, spawns
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.shell import invoked
from muster.webhook import kubeyaml
from muster.webhook.cli.related import held_containers
from muster.webhook.cli.related.held_containers import Held, Seen
from muster.webhook.cli.related.related_documents import Inputs

__all__ = ["apply", "faults", "named", "read"]

_LONGEST = 16_384  # characters of a file, which accelerate's reader takes too
_MOST = 500  # values of a file
_FILES = ("config_file", "accelerate_config", "hostfile")
_JSON = ("--deepspeed", "--fsdp_config", "--accelerator_config")
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
    told: list[str] = []
    while len(told) < _FEW and any(mark in word for word in words for mark in _MARKS):
        step = next(_steps(held, words, inputs), None)
        if step is None or not step[0]:
            break
        words = step[0]
        told.append(str(step[1]))
    return (words, " and ".join(told)) if told else ((), "")


_FEW = 4  # files of one command line
_MARKS = ("config", "deepspeed", "hostfile", ".py")


def _steps(held: Held, words: Sequence[str], inputs: Inputs) -> Iterator[tuple[Sequence[str], Seen]]:
    """Yield the command line with one of its files written into it, and that file."""
    for launch in readings.read(words).launches:
        program = [launch.target] if launch.target.endswith(".py") else []
        for name in (*(launch.values[option] for option in _FILES if option in launch.values), *program):
            seen = _find(held, name, words, inputs) if name not in launch.written else None
            if seen is not None and name in program and not spawns.read(seen.text or ""):
                continue
            text = f"cat > {name} <<'{_END}'\n"
            if seen is not None and seen.text and _END not in seen.text and not any(text in word for word in words):
                yield _behind(words, f"{text}{seen.text.rstrip()}\n{_END}\n"), seen
        for flag in (_FLAG, *(_JSON if invocations.within(launch) is not None else ())):
            name = launch.rest[launch.rest.index(flag) + 1] if flag in launch.rest[:-1] else ""
            seen = _find(held, name, words, inputs) if name else None
            flags = _written(launch, flag, name, seen.text) if seen is not None and seen.text else None
            written = _replaced(words, flag, name, flags) if flags else ()
            if seen is not None and written:
                yield written, seen


def _written(launch: Launch, flag: str, name: str, text: str) -> Sequence[str] | None:
    """Return the words that stand for a flag and its file; None where they are not known, or would be the same."""
    if flag != _FLAG:
        try:
            return [flag, json.dumps(json.loads(text))] if name.endswith(".json") else None
        except (ValueError, RecursionError):
            return None
    if launch.launcher is Launcher.TUNE:
        items = list(_items(launch, read(text)))
        return [flag, name, *items] if items else None
    return _flags(launch, text)


def _items(launch: Launch, found: Mapping[str, object]) -> Iterator[str]:
    """Yield what a config of torchtune says of the items on which a recipe may stop, and the command line does not."""
    given = {word.lstrip("~").partition("=")[0] for word in launch.rest}
    for key in _JUDGED:
        value = paths.lookup(found, tuple(key.split(".")))
        if key not in given and type(value) in (str, int, float, bool):
            yield f"{key}={value}"


_JUDGED = (
    *("batch_size", "gradient_accumulation_steps", "dtype", "device", "clip_grad_norm", "optimizer_in_bwd"),
    *("enable_activation_checkpointing", "enable_activation_offloading", "tensor_parallel_dim"),
    *("tensor_parallel_plan._component_", "optimizer.fused", "tokenizer.max_seq_len", "dataset.packed"),
)
"""Items of configs that `upstream/torchtune` has rows for."""


def named(words: Sequence[str]) -> Iterator[str]:
    """Yield the files of settings that a command line names, by whole paths."""
    if not any(mark in word for word in words for mark in _MARKS):
        return
    for launch in readings.read(words).launches:
        every = [launch.values[option] for option in _FILES if option in launch.values]
        if launch.launcher is not Launcher.TUNE:
            every += [launch.rest[launch.rest.index(flag) + 1] for flag in (_FLAG, *_JSON) if flag in launch.rest[:-1]]
        yield from (name for name in every if name.startswith("/") and "$" not in name and name not in launch.written)


def faults(held: Held, words: Sequence[str], inputs: Inputs, written: str) -> Iterator[Finding]:
    """Report members of files for TRL at which it stops: a file's are not abbreviated, and a list is written as one.

    TRL takes what a file says as it stands, and converts no text that stands for a list. A script that is run as a
    module ignores keys that it does not know (trl `scripts/sft.py`); `trl sft` stops at them, and so does the
    launch that Muster writes instead, which stops at settings of accelerate too.

    Args:
        held: the container.
        words: its command line.
        inputs: all documents of the input.
        written: all launches that Muster writes.
    """
    for launch in readings.read(words).launches if any(_FLAG in word for word in words) else ():
        script = invocations.within(launch) if _FLAG in launch.rest[:-1] else None
        name = launch.rest[launch.rest.index(_FLAG) + 1] if script else ""
        seen = None if name in launch.written else _find(held, name, words, inputs)
        text, where = (seen.text, str(seen)) if seen else (launch.written.get(name), name)
        if script is None or not text:
            continue
        strict = launches.STRICT.format(script.module)
        sure = launch.certain and not held.job.brings_image
        stops = script.form in (Form.TRL, Form.TORCHRUN_TRL) or any(strict in word for word in words)
        for key, value in read(text).items():
            known = _argument(script, key) is not None or key == "env"
            if known and key in _LISTED and isinstance(value, str):
                cure = f"write [{beginning(value, _SHOWN)}]"
                message = f"in {where}: the script would take each letter of this text for an entry of a list; {cure}"
                yield held.report(warning, "command", beginning(key, _SHOWN), message, "trl/arguments")
            elif not known and _is_launchers(launch, key):
                if strict in written:
                    message = f"in {where}: the launch that Muster writes stops at settings of accelerate; {_FLAGGED}"
                    yield held.report(warning, "command", beginning(key, _SHOWN), message, "trl/launcher-flag")
            elif not known:
                near = trl_flags.closest(script.method, key)
                hint = f"; did you mean {near[2:]}?" if near else "; remove it"
                ends = "and stops" if stops else "and ignores it"
                message = f"in {where}: {script.called} has no argument of this name, {ends}{hint}"
                make = error if stops and sure else warning
                yield held.report(make, "command", beginning(key, _SHOWN), message, "trl/unknown-flag")


_FLAGGED = "write it behind the command as a flag"


def _is_launchers(launch: Launch, key: str) -> bool:
    """Whether a member of a file is a setting of accelerate, which TRL hands on where it starts accelerate itself."""
    ours = launch.launcher is Launcher.TRL
    return ours and (key == "accelerate_config" or trl_flags.launcher_spec(f"--{key}") is not None)


def _argument(script: Invocation, key: str) -> FlagSpec | None:
    """Return the argument of a script that a member of a file sets: by its name alone, which has no hyphen.

    Source: trl `scripts/utils.py` set_defaults_with_config.
    """
    return trl_flags.spec(script.method, f"--{key}") if "-" not in key else None


def _spec(launch: Launch, script: Invocation, key: str) -> FlagSpec | None:
    """Return the flag of a member of a file; one of accelerate's only where TRL itself starts it."""
    found = _argument(script, key)
    return trl_flags.launcher_spec(f"--{key}") if found is None and launch.launcher is Launcher.TRL else found


_SHOWN = 40
_LISTED = frozenset({"reward_funcs"})
"""Lists that no configuration of TRL makes of a text, as it does of `loss_type` or `lora_target_modules`."""


def _find(held: Held, name: str, words: Sequence[str], inputs: Inputs) -> Seen | None:
    """Return a file that a launch names, also from the folder into which its shell has gone."""
    if not name or "$" in name:
        return None
    folders = _FOLDER.findall(" ".join(words)) if not name.startswith("/") else ()
    path = posixpath.join(folders[0], name) if len(folders) == 1 else name
    seen = held_containers.find(held, path, inputs)
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


def _replaced(words: Sequence[str], flag: str, name: str, new: Sequence[str]) -> Sequence[str]:
    """Return a command line with other words in the place of a flag and its file."""
    for index, word in enumerate(words):
        if word == flag and list(words[index + 1 : index + 2]) == [name]:
            return [*words[:index], *new, *words[index + 2 :]]
        if word.count(f"{flag} {name}") == 1:
            return [*words[:index], word.replace(f"{flag} {name}", shlex.join(new)), *words[index + 1 :]]
    return ()


def _flags(launch: Launch, text: str) -> Sequence[str] | None:
    """Return the settings of a file as flags, but for those that the command line has; None where it is not read."""
    found = read(text)
    if vllm_servers.starts(launch):
        server = vllm_servers.of_launch(launch, {})
        taken = {*server.parsed.values, *server.parsed.off} if server is not None else set()
        return [word for key, value in found.items() if _dashed(key) not in taken for word in _of_vllm(key, value)]
    script = invocations.within(launch)
    if script is None:
        return None
    parsed = of_trl.parse(script.method, script.args)
    given = {each.name.lstrip("-") for each in parsed.given}
    left = {key: spec for key in found if key not in given and (spec := _spec(launch, script, key)) is not None}
    return [word for key, spec in left.items() for word in _of_trl(spec, found[key])]


def read(text: str | None) -> Mapping[str, object]:
    """Return the members of a file of settings, YAML or JSON; none where it cannot be read."""
    try:
        return decoding.mapping(kubeyaml.load(text or "", most=_MOST))
    except kubeyaml.YamlError:
        return {}


def _dashed(key: str) -> str:
    return key.lstrip("-").replace("_", "-")


def _of_vllm(key: str, value: object) -> Iterator[str]:
    if value is False:
        yield f"--no-{key}"
    elif value is True:
        yield f"--{key}"
    elif value != []:
        yield f"--{key}"
        yield from _words(value)


def _of_trl(spec: FlagSpec, value: object) -> Iterator[str]:
    """Return a setting as a flag; none for one that no text can be, or that is off."""
    if value is None or value == [] or spec.kind.startswith("dict") or (spec.nargs == 0 and value is False):
        return
    yield f"--{spec.name}"
    yield from _words(value) if spec.nargs != 0 else ()


def _words(value: object) -> Iterator[str]:
    match value:
        case list():
            yield from map(str, value)
        case dict():
            yield json.dumps(value)
        case _:
            yield str(value)
