"""Saves: files of settings of the input that let each node save to a folder which the nodes share.

A program gets such a file as a word of its command line: arguments of transformers as JSON or YAML (`HfArgumentParser`,
LLaMA-Factory, axolotl), or DeepSpeed's JSON. What TRL reads with `--config` is in `configurations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.checks import checkpoints
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.frameworks.trl import invocations
from muster.strategies.launches import readings
from muster.webhook.cli.beside import configurations, files
from muster.webhook.cli.beside.inputs import Inputs, member
from muster.webhook.cli.beside.places import Held

__all__ = ["check"]

_ENDS = (".json", ".yaml", ".yml")
_MEMBERS = ("save_on_each_node", "output_dir")


def check(held: Held, inputs: Inputs) -> Iterator[Finding]:
    """Report a file of settings at the command line of the training that names it."""
    job, place = held.job, held.job.container
    if place is None or (*held.template.pod_path, *held.inside) != place.path:
        return
    if not any(end in word for word in held.command for end in _ENDS):
        return
    for launch in readings.read(held.command).launches:
        flags, of_trl = checkpoints.settings_of(launch.rest), invocations.within(launch) is not None
        for before, word in zip(("", *launch.rest), launch.rest, strict=False):
            name = word.partition("=")[2] if word.startswith("--") else word
            is_read = name.endswith(_ENDS) and not (of_trl and before == "--config")
            seen = files.find(held, name, inputs) if is_read else None
            found = _settings(configurations.read(seen.text) or {}) if seen is not None and not seen.secret else {}
            message = checkpoints.why(job, {**found, **flags}) if found else ""
            if message and seen is not None:
                said = f"in {seen.path} of {seen.where}: {message}"
                yield held.report(warning, "args" if held.own.get("args") else "command", name, said, checkpoints.RULE)


def _settings(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a file; DeepSpeed's member for the same stands for that of transformers."""
    kept = {name: found[name] for name in _MEMBERS if name in found}
    if member(found, "checkpoint").get("use_node_local_storage") is True:
        kept["save_on_each_node"] = True
    return kept if "save_on_each_node" in kept else {}
