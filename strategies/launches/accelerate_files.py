"""Configuration files of accelerate: what a file that the launch's own shell has written says.

`accelerate config` writes a flat file, with a few objects one level below. A text of another form is not read, and then
nothing is said about it. Source: accelerate `commands/config/config_args.py` (`process_config`,
`from_yaml_file`, `ClusterConfig`), `utils/dataclasses.py` (`DistributedType`), `utils/launch.py`
(`prepare_multi_gpu_env`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from muster.strategies import upstream
from muster.strategies.documents.findings import beginning
from muster.strategies.launches.launches import Launch

__all__ = ["CONFIGS", "DEFAULT_PLACE", "doubt", "fault", "of_launch", "read"]

DEFAULT_PLACE = "huggingface/accelerate/default_config.yaml"
"""The end of the path of the file that accelerate reads where none is named."""
CONFIGS = ("config_file", "accelerate_config")
"""Options that name such a file."""
_ENTRY = r"([A-Za-z_]\w*):(?:\s+(\S.*))?"
_OTHER_FORMS = tuple("[{|>&*!@`%")
_NOTHING = frozenset({"", "~", "null", "Null", "NULL", "[]", "{}"})
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LONGEST = 16 * 1024
_CLOUD = "AMAZON_SAGEMAKER"
_STOPS = "and accelerate stops"

Settings = Mapping[str, Any]
"""Members of a file: texts, truth values and objects of them; one of null is left out."""


def of_launch(launch: Launch) -> tuple[str, Settings] | None:
    """Return the configuration file that the own shell of a launch has written, by name, with its members."""
    name = next((launch.values[option] for option in CONFIGS if option in launch.values), DEFAULT_PLACE)
    found = read(launch.written[name], name) if name in launch.written else None
    return None if found is None else (name, found)


def read(text: str, name: str) -> Settings | None:
    """Return the members of a file, None where its form is not read.

    Args:
        text: its text; a variable that only the pod knows is `$(NAME)`.
        name: its name, whose end says whether it is JSON.
    """
    if len(text) > _LONGEST:
        return None
    found = _of_json(text) if name.endswith(".json") else _of_lines(text)
    return None if found is None else {key: value for key, value in found.items() if value is not None}


def _of_json(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    return {str(key): str(value) if type(value) in (int, float) else value for key, value in found.items()}


def _of_lines(text: str) -> dict[str, Any] | None:
    """Read YAML of plain scalars, and of objects one level below."""
    found: dict[str, Any] = {}
    inner: dict[str, Any] | None = None
    depth = 0
    for line in text.splitlines():
        written = line.strip()
        if not written or written.startswith("#") or (written == "---" and not found):
            continue
        entry = re.fullmatch(_ENTRY, written)
        indent = len(line) - len(line.lstrip(" "))
        value = (entry[2] or "") if entry is not None else ""
        if entry is None or (value not in _NOTHING and value.startswith(_OTHER_FORMS)) or "\t" in line[: indent + 1]:
            return None
        if not indent:
            inner, depth = ({}, 0) if entry[2] is None else (None, 0)
            found[entry[1]] = _scalar(entry[2]) if inner is None else inner
        elif inner is None or depth not in (0, indent):
            return None
        else:
            depth, inner[entry[1]] = indent, _scalar(entry[2] or "")
    return {key: value if value != {} else None for key, value in found.items()}


def _scalar(text: str) -> str | bool | None:
    if text[:1] in ("'", '"'):
        quote = text[0]
        return text[1 : text.find(quote, 1)] if quote in text[1:] else text
    plain = text.partition(" #")[0].strip()
    return None if plain in _NOTHING else _TRUTH.get(plain.lower(), plain)


def fault(found: Settings, flags: Mapping[str, str]) -> str:
    """Return why accelerate stops at a file, or at one of its members, as a clause; "" where it does not.

    Args:
        found: its members.
        flags: flags of the command line, which win over them.
    """
    if str(found.get("compute_environment", "")) == _CLOUD:
        return ""
    return _type(found, flags) or _rank(found, flags) or _unsynced(found.get("fsdp_config"), flags)


def doubt(found: Settings) -> str:
    """Return why accelerate stops at a file, which another version may take, as a clause; "" where it does not."""
    if str(found.get("compute_environment", "")) == _CLOUD:
        return ""
    known = cast("Mapping[str, Sequence[str]]", upstream.data("accelerate", "config_file"))
    unknown = next((key for key in found if key not in known["members"]), "")
    if unknown:
        version = upstream.shipped("accelerate")
        return f"has the member {beginning(unknown, 40)}, which is none of accelerate {version}, {_STOPS}; remove it"
    kind = found.get("distributed_type", False)
    if kind is not False and str(kind) not in known["distributed_type"] and "$" not in str(kind):
        return f"has the distributed_type {beginning(str(kind), 40)}, which is none, {_STOPS}; use {_USUAL}"
    return ""


def _type(found: Settings, flags: Mapping[str, str]) -> str:
    """Judge the kind of distribution."""
    kind = found.get("distributed_type")
    if kind is None:
        return f"has no distributed_type, {_STOPS}; write {_USUAL}"
    name = "NO" if kind is False else str(kind)  # YAML reads NO as a truth value
    if name != "NO" and "num_processes" not in {*found, *flags}:
        return f"has no num_processes, {_STOPS} without the flag; add it"
    return ""


_USUAL = "MULTI_GPU, FSDP or DEEPSPEED"


def _rank(found: Settings, flags: Mapping[str, str]) -> str:
    """Judge a rank that a shell should have written, and has not: a quoted EOF keeps variables as they are."""
    rank = str(found.get("machine_rank", "0"))
    several = str(flags.get("num_machines", found.get("num_machines", "1"))) not in ("0", "1")
    if several and "machine_rank" not in flags and "$" in rank and not rank.startswith("$("):
        return f"has the machine_rank {beginning(rank, 40)}, which no shell has replaced, {_STOPS}; leave EOF unquoted"
    return ""


def _unsynced(sharding: object, flags: Mapping[str, str]) -> str:
    given: Mapping[str, Any] = sharding if isinstance(sharding, dict) else {}
    names = ("fsdp_cpu_ram_efficient_loading", "fsdp_sync_module_states")
    if given.get(names[0]) is True and given.get(names[1]) is False and not set(names) & set(flags):
        return f"has {names[0]} without {names[1]}, {_STOPS}; set both to true"
    return ""
