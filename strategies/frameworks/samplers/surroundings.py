"""Surroundings: what around the two roles keeps them from starting, from working together, or from ending.

Sources: jobset v0.12.0 `pkg/controllers/depends_on.go` and `success_policy.go`; trainer v2.3.0
`pkg/runtime/framework/plugins/coscheduling` and `volcano` (minMember counts the pods of all replicated jobs);
scheduler-plugins v0.35.4 `pkg/coscheduling/core/core.go` PreFilter (no pod starts before as many exist).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, Severity, error, warning
from muster.strategies.frameworks.samplers import adapters, hardware, transfers, volumes
from muster.strategies.frameworks.samplers.additions import waits
from muster.strategies.frameworks.samplers.pairs import Pair

__all__ = ["check"]

_GANGS = ("coscheduling", "volcano")


def check(pair: Pair) -> Iterator[Finding]:
    """Yield what around the two roles is wrong."""
    if pair.is_meant or pair.is_asked:
        yield from _gang(pair)
        yield from _end(pair)
    if not pair.is_asked:
        return
    yield from _restart(pair)
    yield from _devices(pair)
    yield from _output(pair)
    yield from _folder(pair)


def _gang(pair: Pair) -> Iterator[Finding]:
    runtime = pair.job.runtime.document if pair.job.runtime else {}
    policy: Any = (runtime.get("spec") or {}).get("podGroupPolicy")
    gang = next((each for each in _GANGS if isinstance(policy, Mapping) and policy.get(each) is not None), None)
    if gang is None or not waits(pair):
        return
    message = (
        f"{gang} starts the sampler only when the pods of {pair.node.job_name} exist too, and these are made only when "
        "the sampler is ready (dependsOn), so that the job never starts; remove podGroupPolicy, or dependsOn"
    )
    yield pair.on_jobset(Severity.ERROR, "podGroupPolicy", gang, message, rule="sampler/gang")


def _end(pair: Pair) -> Iterator[Finding]:
    """Refuse a policy of success that waits for a server, which never ends by itself."""
    policy: Any = pair.spec.get("successPolicy") or {}
    if not isinstance(policy, Mapping) or policy.get("operator", "All") != "All" or pair.sampler.server is None:
        return
    targets = policy.get("targetReplicatedJobs")
    if isinstance(targets, list) and targets and pair.sampler.name not in targets:
        return
    certain = pair.is_meant and pair.sampler.server.certain and (pair.sampler.bare or pair.sampler.trls)
    message = (
        f"the job is complete only when {pair.sampler.called} ends too, and a server never does; use "
        f"{{operator: All, targetReplicatedJobs: [{pair.node.job_name}]}}"
    )
    severity = Severity.ERROR if certain else Severity.WARNING
    yield pair.on_jobset(severity, "successPolicy", None, message, rule="sampler/end")


def _restart(pair: Pair) -> Iterator[Finding]:
    """Warn about a trainer that starts again beside a sampler that still holds the state of the first one.

    By files it takes the sampler over, when the lease of the first one ends (`images/weights`).
    """
    if transfers.sends_files(pair):
        return
    spec: Any = pair.node.job["template"]["spec"]
    restarts = pair.node.pod_spec.get("restartPolicy", "OnFailure") != "Never"
    if not restarts and spec.get("backoffLimit") == 0:
        return
    inside = f"replicatedJobs[{pair.node.job_name}]"
    message = (
        "a trainer that fails starts again beside a sampler that still waits for the first one, and cannot join it; "
        "use restartPolicy Never and backoffLimit 0, and failurePolicy.maxRestarts to start both again"
    )
    yield pair.on_jobset(Severity.WARNING, inside, None, message, rule="sampler/restart")


def _devices(pair: Pair) -> Iterator[Finding]:
    if pair.training.found is None or not transfers.is_nccl(pair):
        return
    idle, claim, profile = hardware.idle_role(pair), hardware.shared_claim(pair), hardware.shared_profile(pair)
    if idle is not None:
        yield _on_cpu(pair, idle)
    elif claim is not None:
        message = (
            "both roles use this claim, so that they may be on one GPU, and NCCL refuses two ranks on one; give each "
            "role a claim of its own, or use --vllm_mode colocate without a sampler"
        )
        yield pair.on_jobset(Severity.ERROR, "replicatedJobs", claim, message, rule="sampler/device")
    elif profile is not None:
        message = (
            "both roles use this shared profile, so that they may be on one GPU, and NCCL refuses two ranks on one; "
            "give one of the roles another profile"
        )
        yield pair.on_jobset(Severity.WARNING, "replicatedJobs", profile, message, rule="sampler/device")


def _on_cpu(pair: Pair, idle: str) -> Finding:
    surely = pair.training.parsed.values.get("use_cpu") is True
    report = error if surely else warning
    message = (
        f"{idle} asks for no GPU, and TRL sends weights by NCCL, which needs one on both sides; ask for GPUs, or set "
        f"{transfers.FOLDER} to send weights by files"
    )
    value = "--use_cpu" if surely else None
    return report(pair.training.field("use_cpu"), value, message, rule="sampler/device")


def _output(pair: Pair) -> Iterator[Finding]:
    """Refuse an output folder of which the sampler cannot read the adapters that the training writes there."""
    found = adapters.find(pair)
    if found is None or found.output is None or not found.output.startswith("/"):
        return
    why = volumes.apart(pair, found.output)
    if why is None:
        return
    field = f"{pair.training.site.place}.{'args' if pair.training.site.args else 'command'}"
    message = (
        f"the training writes adapters there, and {pair.sampler.called} has to read them under the same "
        f"path: {why}; mount one volume for both roles at one path"
    )
    report = error if found.index is not None else warning
    yield report(field, f"--output_dir {found.output}", message, rule="sampler/output")


def _folder(pair: Pair) -> Iterator[Finding]:
    """Refuse a folder for weights that is not the same for both roles, under whatever paths."""
    mine, theirs = transfers.folders(pair)
    mine, theirs = mine or theirs, theirs or mine
    odd = next((each for each in (mine, theirs) if each and not each.startswith(("/", "$"))), None)
    if odd is not None:
        message = "is not an absolute path, which both roles refuse; name a folder of a volume that both mount"
        yield pair.on_jobset(Severity.ERROR, f"env[{transfers.FOLDER}]", odd, message, rule="sampler/transfer")
    if not mine.startswith("/") or not theirs.startswith("/") or transfers.is_nccl(pair):
        return
    why = volumes.differing(pair, mine, theirs)
    if why is not None:
        message = (
            f"weights travel by files in {mine}, and the sampler has to read them there: {why}; mount one volume for "
            "both roles"
        )
        yield pair.on_jobset(Severity.ERROR, "replicatedJobs", transfers.FOLDER, message, rule="sampler/output")
