"""Serving: whether the GPUs of a pod are enough for `trl vllm-serve`, which hands its sizes to `vllm serve`.

Source: trl `trl/scripts/vllm_serve.py` (build_command).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["check"]

_MODULE = "trl.scripts.vllm_serve"
_SIZES = ("tensor_parallel_size", "data_parallel_size")
_PLACED = "distributed_executor_backend"


def check(job: Job, site: Site) -> Iterator[Finding]:
    """Refuse a server whose sizes need more GPUs than its pod has."""
    for launch in site.reading.launches:
        if _serves(launch):
            given = dict(_given(launch.rest))
            sizes = [whole(given.get(name, "1")) for name in _SIZES]
            count = topologies.read_topology(job).devices.count
            wanted = 0 if None in sizes or _PLACED in given else math.prod(size or 0 for size in sizes)
            if count and wanted > count:
                message = (
                    f"asks for {wanted} GPUs (tensor x data parallel), and the pod has {count}, so vLLM would not "
                    "start; lower one of the sizes"
                )
                report = error if launch.certain else warning
                yield report(f"{site.place}.command", wanted, message, rule="trl/vllm-size")


def _serves(launch: Launch) -> bool:
    if launch.launcher is Launcher.TRL:
        return launch.target == "vllm-serve"
    return launch.launcher is Launcher.PYTHON and launch.module and launch.target == _MODULE


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the flags of a command line with their values; of one that stands twice, the last counts."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            yield name.replace("-", "_"), value if equals else following
