"""Additions: what Muster writes on both sides, so that the training finds its sampler and the sampler serves it.

On the training, the mode, the URL and a patience that is as long as the sampler's start may take. The URL names the
sampler by a variable, because the name of a TrainJob may still be generated; the variable is written on the JobSet. On
the sampler, flags, env and probes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import paths, pods
from muster.strategies.documents.findings import warning
from muster.strategies.documents.paths import Absent
from muster.strategies.frameworks.samplers import sampler_completions, weight_transfers
from muster.strategies.frameworks.samplers.role_pairs import ENV, Pair
from muster.strategies.frameworks.vllm import health_probes, serve_arguments
from muster.strategies.launches.sites import Site

__all__ = ["PATIENCE", "address", "complete", "waits"]

PATIENCE = 1800
"""Seconds that the training waits for its sampler: as long as the startup probe that Muster writes lets it load."""
_Wish = tuple[str, str, str]
"""A word to add, the rule and the reason."""


def address(pair: Pair, changes: Changes) -> None:
    """Write mode, URL and patience behind the arguments of the training."""
    training = pair.training
    if not training.extends or not training.asks_server or training.parsed.faults:
        return
    if pair.url is None or not pair.is_named:
        return
    site, behind = training.site, training.foreign
    for word, rule, reason in _wishes(pair):
        command, args = _with(site, word, behind)
        site.write(changes, command, args, rule=rule, reason=reason)
        site = structs.replace(site, command=command, args=args)


def _with(site: Site, word: str, behind: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return command and arguments with a word before the last `behind` words, which are flags of accelerate."""
    if behind <= len(site.args):
        place = len(site.args) - behind
        return site.command, (*site.args[:place], word, *site.args[place:])
    place = len(site.argv) - behind
    return (*site.command[:place], word, *site.command[place:]), site.args


def _wishes(pair: Pair) -> Iterator[_Wish]:
    training = pair.training
    if training.mode == "":
        reason = f"without it, TRL starts an engine beside the trainer, and {pair.sampler.called} is idle"
        yield "--vllm_mode=server", "sampler/mode", reason
    if not training.is_addressed:
        reason = f"the training asks {pair.sampler.called}, whose host name {ENV} holds in its pods"
        yield f"--vllm_server_base_url={pair.url}", "sampler/url", reason
    if "vllm_server_timeout" not in training.parsed.values and not waits(pair):
        reason = f"nothing lets the training start after the sampler, which may take {PATIENCE} s to load its model"
        yield f"--vllm_server_timeout={PATIENCE}", "sampler/timeout", reason


def waits(pair: Pair) -> bool:
    """Whether the training starts when its sampler is ready."""
    entries: Any = pair.node.raw_job.get("dependsOn")
    every = [each for each in entries if isinstance(each, Mapping)] if isinstance(entries, list) else []
    mine = [each for each in every if each.get("name") == pair.sampler.name]
    return any(each.get("status") == "Ready" for each in mine)


def complete(pair: Pair, changes: Changes) -> None:
    """Write the sampler's name into the env of the training, and flags, env and probes of the sampler."""
    if pair.host is not None and not pair.rivals and pair.is_used is not False:
        reason = f"programs of the training find {pair.sampler.called} by this name"
        _add_env(changes, pair.node, (ENV, pair.host, reason))
    _add_folder(pair, changes)
    _add_flags(pair, changes)
    for entry in sampler_completions.list_env(pair):
        _add_env(changes, pair.sampler.place, entry)
    server = pair.sampler.server
    if server is not None and pair.is_asked:
        ready = "the sampler is ready for the training"
        health_probes.add(changes, pair.sampler.place.path, server, rule="sampler/probes", ready=ready)


def _add_folder(pair: Pair, changes: Changes) -> None:
    """Let the training send weights by files, where only the sampler's runtime says so."""
    mine, theirs = weight_transfers.folders(pair)
    if theirs and not mine and pair.is_asked and not serve_arguments.hidden(theirs):
        _add_env(changes, pair.node, (weight_transfers.FOLDER, theirs, "the sampler reads weights from this folder"))


def _add_flags(pair: Pair, changes: Changes) -> None:
    found, site = sampler_completions.list_flags(pair), pair.sampler.site
    if not found:
        return
    words: Sequence[str] = [word for flag in found for word in flag.words]
    reason = f"the sampler of this training is completed so that {'; '.join(flag.reason for flag in found)}"
    site.write(changes, pair.sampler.command, (*site.args, *words), rule="sampler/flags", reason=reason)


def _add_env(changes: Changes, place: pods.Place, entry: tuple[str, str, str]) -> None:
    name, value, reason = entry
    env: Any = changes.get(*place.path, "env")
    found = pods.find_env(None if isinstance(env, Absent) else env, name)
    if found is None:
        changes.append((*place.path, "env"), {"name": name, "value": value}, rule="sampler/env", reason=reason)
    elif found.get("value") != value:
        where = f"{paths.field(changes.document, place.path)}.env[{name}]"
        message = f"kept as the job sets it; Muster would have set {value!r}, because {reason}"
        changes.report(warning(where, found.get("value"), message, rule="sampler/env"))
