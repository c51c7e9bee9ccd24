"""Choices: words of which a launcher's option takes a few, so that its parser stops at any other.

Printed from the parsers of torch 2.13 `torch/distributed/run.py` and accelerate 1.15 `accelerate/commands/launch.py`;
`--redirects` and `--tee` are read by torch `distributed/elastic/multiprocessing/api.py` (Std.from_str).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from muster.strategies.launches.launches import Launch, Launcher

__all__ = ["VARIABLES", "refused", "refused_variable"]

_TORCHRUN: Mapping[str, tuple[str, ...]] = {
    "start_method": ("spawn", "fork", "forkserver"),
    "numa_binding": ("node", "socket", "exclusive", "core-complex"),
}
_ACCELERATE: Mapping[str, tuple[str, ...]] = {
    "mixed_precision": ("no", "fp16", "bf16", "fp8"),
    "dynamo_backend": (
        *("no", "eager", "aot_eager", "inductor", "aot_ts_nvfuser", "nvprims_nvfuser", "cudagraphs", "ofi", "fx2trt"),
        *("onnxrt", "tensorrt", "aot_torchxla_trace_once", "torhchxla_trace_once", "tvm"),
    ),
    "dynamo_mode": ("default", "reduce-overhead", "max-autotune"),
    "fsdp_version": ("1", "2"),
    "fp8_backend": ("ao", "te", "msamp"),
    "fp8_format": ("HYBRID", "E4M3", "E5M2"),
    "fp8_amax_compute_algo": ("max", "most_recent"),
    "fp8_opt_level": ("O1", "O2"),
}
_OF: Mapping[Launcher, Mapping[str, tuple[str, ...]]] = {
    Launcher.TORCHRUN: _TORCHRUN,
    Launcher.TUNE: _TORCHRUN,
    Launcher.ACCELERATE: _ACCELERATE,
}
_PORTS = frozenset({"master_port", "main_process_port"})
_HIGHEST_PORT, _DIGITS = 65_535, 5
_STREAMS = ("redirects", "tee")
_READ = frozenset({*_STREAMS, "local_ranks_filter"})
_SWITCHES = frozenset({"standalone", "module", "no_python", "run_path", "virtual_local_rank"})
_STREAM = re.compile(r"[0-3]|\d:[0-3](?:,\d:[0-3])*")
_LONGEST = 256  # characters of the streams that are read


def refused(launch: Launch) -> Iterator[tuple[str, str, str]]:
    """Yield (option, value, message) of each option whose value the launcher's parser does not take.

    A value with a variable is known only in the pod, and left out.
    """
    known = _OF.get(launch.launcher, {})
    for option in launch.values if known else ():
        value = launch.values[option]
        if option in known and "$" not in value and value not in known[option]:
            yield option, value, f"is not one of {', '.join(known[option])}, and the launch would not start; use one"
        elif option in _PORTS and value.isdecimal() and (len(value) > _DIGITS or int(value) > _HIGHEST_PORT):
            yield option, value, f"is not a port, which ends at {_HIGHEST_PORT}; correct it"
        elif option == "local_ranks_filter" and known is _TORCHRUN and not _is_list(value):
            yield option, value, "is not a list of ranks, such as 0,1, and torchrun would stop; correct it"
        elif option in _VALUES and known is _TORCHRUN and _VALUES[option](value):
            yield option, value, f"{_VALUES[option](value)}, and torchrun would stop; correct it"
        elif option == "no_python" and launch.module:
            yield option, value, "does not go with -m, and the launch would stop; remove one of the two"
        elif option == "no_python" and _is_bare_script(launch.target):
            message = "starts the script as a program, which is looked for in PATH, and the launch stops; remove it"
            yield option, value or "on", message
        elif option in _STREAMS and known is _TORCHRUN and not _is_stream(value):
            message = "is not 0 to 3, nor such as 0:3,1:0 for single ranks, and torchrun would stop; correct it"
            yield option, value, message


def refused_variable(launch: Launch, name: str, value: str) -> Iterator[str]:
    """Yield what is wrong with the value of a PET_* that torchrun reads in place of a flag, where that is not given.

    argparse converts a default that is a text as it converts a flag, and does not compare it with the choices. A switch
    is read as a number (torch `distributed/argparse_util.py` check_env).

    Args:
        launch: a launch of torchrun.
        name: one of `VARIABLES`.
        value: its value.
    """
    option = VARIABLES[name]
    if option in launch.values:
        return
    if option in _VALUES:
        if wrong := _VALUES[option](value):
            yield f"{wrong}, and torchrun would stop; correct it"
    elif option in _SWITCHES and "$" not in value and not value.strip().isdecimal():
        yield "is read as 0 or 1, and torchrun stops at another word; write one of them"
    elif option not in _SWITCHES or int(value[:_DIGITS] if value.strip().isdecimal() else 0):
        for _, _, message in refused(replace(launch, values={option: value}, module=False)):
            yield message


def _restarts(value: str) -> str:
    if value.startswith("-"):
        return "is below 0"
    return "" if "$" in value or value.strip().isdecimal() else "is not a whole number"


def _number(value: str) -> str:
    return "" if "$" in value or value.strip().isdecimal() else "is not a whole number"


def _interval(value: str) -> str:
    """Judge a number of seconds (`distributed/run.py`, type=float)."""
    if "$" in value or len(value) > _LONGEST:
        return ""
    try:
        float(value)
    except ValueError:
        return "is not a number of seconds"
    return ""


def _settings(value: str) -> str:
    """Judge the options of a rendezvous (`distributed/elastic/rendezvous/utils.py` _parse_rendezvous_config)."""
    given = [each.partition("=") for each in value.strip().split(",")] if value.strip() else []
    wrong = not all(name.strip() and held.strip() for name, _, held in given)
    return "has an option without a name or a value, which are name=value" if wrong and "$" not in value else ""


_VALUES: Mapping[str, Callable[[str], str]] = {
    "max_restarts": _restarts,
    "monitor_interval": _interval,
    "rdzv_conf": _settings,
    "master_port": _number,
    "node_rank": _number,
}


def _is_bare_script(target: str) -> bool:
    """Whether a program is a script without a folder, which no folder of PATH holds."""
    return target.endswith(".py") and "/" not in target


VARIABLES: Mapping[str, str] = {f"PET_{option.upper()}": option for option in sorted({*_VALUES, *_READ, *_SWITCHES})}
"""Variables that torchrun reads in place of flags which it converts, and their options."""


def _is_list(value: str) -> bool:
    """Whether a value is a list of numbers, or holds a variable."""
    return "$" in value or all(each.strip().isdecimal() for each in value[:_LONGEST].split(","))


def _is_stream(value: str) -> bool:
    """Whether a value names streams, or holds a variable."""
    return "$" in value or (len(value) <= _LONGEST and _STREAM.fullmatch(value) is not None)
