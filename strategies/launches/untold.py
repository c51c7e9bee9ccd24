"""Untold: launches of torch in a runtime whose plugin of Trainer sets no PET_*, or in a JobSet without a label.

Every node of such a job runs the command, and torchrun knows neither how many they are nor where they meet, unless
its flags say so (trainer `plugins/{jax,xgboost,plainml}`; torch `torch/distributed/run.py`). Runtimes of
MPI with several nodes are in `slots`; what flux starts is not known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from muster.strategies.documents import names
from muster.strategies.documents.findings import Finding, Severity, error, warning
from muster.strategies.documents.quantities import whole
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import addresses, counts, quotes, sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.written import Seen

__all__ = ["check"]

_JUDGED = frozenset(
    {Launcher.TORCHRUN, Launcher.ACCELERATE, Launcher.TRL, Launcher.TUNE, Launcher.DEEPSPEED, Launcher.COMPOSER}
    | {Launcher.FABRIC}
)


def check(job: Job) -> Iterator[Finding]:
    """Compare the launches of such a TrainJob with its nodes and devices, and of either how its nodes meet."""
    runtime = job.runtime
    if not job.is_untold or runtime is None:
        return
    if runtime.is_unlabelled or job.container is None:
        return
    if runtime.policy.torch is not None or runtime.policy.flux is not None:
        return
    if runtime.policy.mpi is not None and topologies.pods_of(job) > 1:
        return
    site = sites.find_site(job) if not job.container.container.env_from else None  # it may hold PET_*
    if site is None or not any(each.launcher in _JUDGED for each in site.reading.launches):
        return
    apart = all("standalone" in each.values for each in site.reading.launches)  # each node may train its own
    for finding in counts.compare(job) if job.kind == "TrainJob" else ():  # a strategy compares a JobSet
        lower = apart and finding.rule == "core/nodes"
        yield dataclasses.replace(finding, severity=Severity.WARNING) if lower else finding
    if topologies.pods_of(job) > 1:
        seen = Seen(job, site, job.container, topologies.pods_of(job))
        for launch in site.reading.launches:
            yield from addresses.check(seen, launch) if job.kind == "TrainJob" else ()  # as above
            if launch.launcher is Launcher.TORCHRUN and len(job.world) == 1:  # parts may have ranks of their own
                yield from _meeting(seen, launch)


def _meeting(seen: Seen, launch: Launch) -> Iterator[Finding]:
    """Report nodes that a launch counts and gives no address or no rank."""
    low, colon, high = _setting(seen, launch, "nnodes").partition(":")
    if "standalone" in launch.values or (whole(high if colon else low) or 0) < 2:
        return
    job = seen.job
    report = error if launch.certain and not job.is_untouched else warning  # somebody else may set them
    where, shown = seen.site.locate_option(launch, "nnodes"), quotes.launch(launch)
    who, cure = "Trainer sets none in this runtime", "use a runtime with mlPolicy.torch"
    if job.is_untouched:
        who, cure = "Muster adds none without the label of a framework", f"add the label {names.FRAMEWORK_LABEL}"
    meeting = addresses.find(seen, launch)
    if meeting.address is None:
        message = (
            f"names no address, and {who}, so each node would wait for the others in its own pod; add --rdzv_endpoint, "
            f"or {cure}"
        )
        yield report(where, shown, message, rule="core/nodes")
    elif meeting.kind in ("", "static") and not _setting(seen, launch, "node_rank"):
        message = (
            f"gives every node the rank 0, because {who}; add --node_rank $(JOB_COMPLETION_INDEX), or --rdzv_backend "
            "c10d"
        )
        yield report(where, shown, message, rule="core/fixed-rank")


def _setting(seen: Seen, launch: Launch, option: str) -> str:
    """Return what torchrun reads for an option: its flag, else its PET_* variable; "" for none."""
    found = seen.setting(launch, option)
    return found.text if found is not None else seen.reference(launch, f"PET_{option.upper()}")
