"""The trl strategy: TRL trains on all nodes and devices of the job, also with a vLLM server beside it that samples.

A job without a sampler is what `TRLStrategy` makes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.strategies.changes.changes import Changes
from muster.strategies.documents.findings import Finding
from muster.strategies.frameworks.samplers import (
    pair_additions,
    pair_view,
    role_pairs,
    role_resources,
)
from muster.strategies.frameworks.samplers.role_pairs import Pair
from muster.strategies.frameworks.trl.trl_strategy import TRLStrategy
from muster.strategies.frameworks.vllm import serve_checks, serve_view
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import topologies

__all__ = ["SampledTRLStrategy"]


class SampledTRLStrategy(TRLStrategy):
    """Serves `trainer.kubeflow.org/framework: trl`."""

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Rewrite the launch, and let the training ask its sampler."""
        super().enforce_command(job, changes)
        pair = role_pairs.find(job)
        if pair is not None:
            pair_additions.address(pair, changes)

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Add the rendezvous, and what the two roles of a JobSet need of each other."""
        super().enforce_rendezvous(job, changes)
        pair = role_pairs.find(job) if job.kind == "JobSet" else None
        if pair is not None:
            pair_additions.complete(pair, changes)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Check the training, its sampler, and both against each other."""
        found = super().validate(job)
        pair = role_pairs.find(job) if job.owner is None else None
        if pair is None:
            yield from found
            return
        own = list(_check(pair))
        said = _said(pair, own)
        yield from (each for each in found if (each.rule, each.field) not in said and (each.rule, "") not in said)
        yield from own


def _said(pair: Pair, own: list[Finding]) -> set[tuple[str, str]]:
    """Return rules of findings, and their fields or "" for any, that those about the pair say better."""
    said = {("core/unchecked-part", pair.sampler.site.place)} if pair_additions.completed(pair) is not None else set()
    said |= {("trl/word", each.field) for each in own if each.rule == "sampler/mode"}
    missed = any(each.rule in ("sampler/url", "sampler/several") for each in own)
    return said | ({("trl/vllm-server", "")} if missed else set())


def _check(pair: Pair) -> Iterator[Finding]:
    yield from pair_view.check(pair)
    yield from _server(pair)


def _server(pair: Pair) -> Iterator[Finding]:
    """Check the sampler's own flags, as `vllm serve` will read them."""
    server = pair_additions.completed(pair)
    if server is None or pair.sampler.trls or not pair.is_asked:
        return
    around = serve_view.Circumstances(
        gpus=role_resources.count_devices(pair),
        others=topologies.sees_others(pair.sampler.place.container),
        own_image=pair.job.kind == "JobSet",
        initialized=True,  # a sampler without a model is told elsewhere
        alone=pair.sampler.bare,
        authors=None,
    )
    for finding in serve_checks.check(server, pair.sampler.site, around):
        yield pair.relayed(finding)
