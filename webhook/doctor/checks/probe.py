"""The proof from end to end: TrainJobs sent with `dryRun=All`, which go all the way and are kept by nobody.

Two jobs. One has an annotation that only Muster refuses: its refusal proves that the API server calls Muster, trusts
its certificate and heeds its answer. The other is right, and comes back with what Muster does to it. Both are
suspended, should anything ever take a dry run for a real one.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Iterable, Mapping
from typing import Any

from strategies.documents import names
from strategies.frameworks.default import strategy as default
from strategies.plugins import registry
from webhook.admission.policies import Mode
from webhook.cluster import transports
from webhook.doctor import diagnoses, refusals, selectors
from webhook.doctor.checks import webhooks
from webhook.doctor.diagnoses import Diagnosis
from webhook.doctor.installations import Document, Installation, Options
from webhook.doctor.permissions import Need

__all__ = ["CHECK", "look", "needs"]

CHECK = "probe"
_RUNTIMES = f"/apis/{names.TRAINER_API_VERSION}/clustertrainingruntimes"
_FRAMEWORKS = ("trl", "torch")  # in this order: a launch that is replaced proves more than one that is added to
_WRONG = "muster-doctor"  # as a rendezvous, which is static or c10d
_DOMAIN = ".muster.dev"
_NONE = registry.Registry(default.DefaultStrategy())  # modes are asked of the policy, and no strategy
_ARGS = ("--model_name_or_path=none", "--dataset_name=none", "--output_dir=/tmp")


def needs(options: Options) -> tuple[Need, ...]:
    """To create TrainJobs, which is asked of dry runs as well, and to find a runtime for them."""
    return (
        Need("create", "trainjobs", names.TRAINER_GROUP, options.probe_namespace),
        Need("list", "clustertrainingruntimes", names.TRAINER_GROUP),
        Need("get", "namespaces", "", "", options.probe_namespace),
        *webhooks.needs(options),
    )


async def look(installation: Installation) -> list[Diagnosis]:
    """Send both jobs, the right one several times.

    Raises:
        TransportError: what is needed for the jobs cannot be read.
    """
    namespace = installation.options.probe_namespace
    space = await installation.get(f"/api/v1/namespaces/{namespace}")
    if space is None:
        return [diagnoses.unknown(CHECK, f"there is no namespace {namespace}", "name another one (--probe-namespace)")]
    labels = space["metadata"].get("labels") or {}
    left_out = await _left_out(installation, labels)
    if left_out:
        what = f"{left_out} leaves out namespace {namespace}, so jobs there prove nothing"
        return [diagnoses.unknown(CHECK, what, "name a namespace of users (--probe-namespace)")]
    framework, runtime = _chosen(await installation.list(_RUNTIMES))
    if not runtime:
        what = f"there is no ClusterTrainingRuntime of {' or '.join(_FRAMEWORKS)} to probe with"
        return [diagnoses.unknown(CHECK, what, "install one (kubectl apply --server-side -k manifests/runtimes)")]
    mode = (await installation.configured()).policy(_NONE).mode_of(framework, labels.get(names.MODE_LABEL))
    refused = await _refused(installation, runtime, mode)
    if refused.severity is not diagnoses.Severity.OK:
        return [refused]
    return [refused, await _corrected(installation, framework, runtime, mode)]


async def _refused(installation: Installation, runtime: str, mode: Mode) -> Diagnosis:
    """Send the wrong job."""
    job = _job(runtime, {"annotations": {names.RENDEZVOUS_ANNOTATION: _WRONG}}, {})
    try:
        await _sent(installation, job)
    except transports.RefusedError as error:
        return _judged(str(error), installation.options)
    except transports.TransportError as error:
        return diagnoses.unknown(CHECK, f"a job with dryRun=All was not answered: {error}", "try again, with --timeout")
    if mode is Mode.ENFORCE:
        what = "the API server takes a job that Muster would have refused, so Muster was not asked"
        return diagnoses.error(CHECK, what, "see the check webhooks; install again (docs/installation.md)")
    return diagnoses.ok(CHECK, f"a wrong job is let through, as mode {mode.value} has it")


def _judged(message: str, options: Options) -> Diagnosis:
    """Say what the API server's refusal of the wrong job means."""
    if refusals.denier(message).endswith(_DOMAIN):
        return diagnoses.ok(CHECK, "the API server calls Muster, trusts its certificate and heeds its refusals")
    broken = refusals.failed(message)
    if broken.endswith(_DOMAIN):
        cause, todo = refusals.explained(message)
        return diagnoses.error(CHECK, f"the API server cannot call {broken}, so no job can be created: {cause}", todo)
    if broken:
        what = f"the webhook {broken} of somebody else cannot be called: {refusals.explained(message)[0]}"
        return diagnoses.unknown(CHECK, what, "mend that one first; it stands in the way of every job")
    what = f"somebody else refuses the job of the probe: {message}"
    return diagnoses.unknown(
        CHECK, what, f"name a namespace where it may be (--probe-namespace; now {options.probe_namespace})"
    )


async def _corrected(installation: Installation, framework: str, runtime: str, mode: Mode) -> Diagnosis:
    """Send the right job several times, and look at what comes back."""
    trainer = {"trainer": {"command": ["trl", "sft"], "args": list(_ARGS), "numNodes": 2}} if framework == "trl" else {}
    job, seconds, answer = _job(runtime, {}, trainer), list[float](), {}
    for _ in range(installation.options.calls):
        begun = time.monotonic()
        try:
            answer = dict(await _sent(installation, job))
        except transports.TransportError as error:
            return diagnoses.unknown(CHECK, f"a right job is refused: {error}", "name another --probe-namespace")
        seconds.append(time.monotonic() - begun)
    minimum, median = min(seconds), statistics.median(seconds)
    took = f"in {median * 1000:.0f} ms (median of {len(seconds)}, fastest {minimum * 1000:.0f} ms)"
    changed = names.APPLIED_ANNOTATION in (answer["metadata"].get("annotations") or {})
    figures = {"minimumSeconds": round(minimum, 6), "medianSeconds": round(median, 6), "calls": float(len(seconds))}
    if changed == (mode is Mode.ENFORCE):
        done = "corrected" if changed else f"left as it is, as mode {mode.value} has it,"
        return diagnoses.ok(CHECK, f"a job of runtime {runtime} is {done} and taken {took}", **figures)
    if changed:
        what = f"a job is corrected though the mode seems to be {mode.value}"
        return diagnoses.warning(CHECK, what, "wait a minute for the replicas to take the configuration up")
    what = f"a job of runtime {runtime} comes back as it was sent: Muster did not correct it"
    return diagnoses.error(
        CHECK, what, "see the mutating entries (check webhooks) and `muster audit` for this job's record"
    )


def _job(runtime: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Document:
    reference = {"apiGroup": names.TRAINER_GROUP, "kind": "ClusterTrainingRuntime", "name": runtime}
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": f"muster-doctor-{secrets.token_hex(3)}", **metadata},
        "spec": {"runtimeRef": reference, "suspend": True, **spec},
    }


async def _sent(installation: Installation, job: Document) -> Document:
    path = f"/apis/{names.TRAINER_API_VERSION}/namespaces/{installation.options.probe_namespace}/trainjobs"
    return await installation.create(path, job, dryRun="All")


async def _left_out(installation: Installation, labels: Mapping[str, str]) -> str:
    """Return an entry that takes TrainJobs and leaves a namespace with these labels out, "" for none."""
    for title, entry in await webhooks.all_of(installation):
        if "create.trainjobs" in title and not selectors.selects(entry.get("namespaceSelector"), labels):
            return title
    return ""


def _chosen(runtimes: Iterable[Document]) -> tuple[str, str]:
    """Return the framework and name of a runtime that says most, ("", "") when there is none."""
    found = {
        (str((each["metadata"].get("labels") or {}).get(names.FRAMEWORK_LABEL)), str(each["metadata"]["name"]))
        for each in runtimes
    }
    usable = sorted((_FRAMEWORKS.index(framework), name) for framework, name in found if framework in _FRAMEWORKS)
    return (_FRAMEWORKS[usable[0][0]], usable[0][1]) if usable else ("", "")
