"""Checks admission from end to end: TrainJobs sent with `dryRun=All`, which are admitted and not stored.

There are two jobs. The wrong job has an annotation that only Muster refuses: its refusal proves that the API server
calls Muster, trusts its certificate and follows its answer. The right job comes back with the changes of Muster. Both
are suspended, in case anything stores a dry run.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Iterable, Mapping
from typing import Any

from muster.kube import transports
from muster.strategies.documents import names
from muster.strategies.frameworks.default import strategy as default
from muster.strategies.plugins import registry
from muster.webhook.admission.policies import Mode
from muster.webhook.doctor import diagnoses, refusals, selectors
from muster.webhook.doctor.checks import webhooks
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Document, Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECK", "look", "needs"]

CHECK = "probe"
_RUNTIMES = f"/apis/{names.TRAINER_API_VERSION}/clustertrainingruntimes"
_FRAMEWORKS = ("trl", "torch")  # in this order: a replaced launch proves more than additions to one
_WRONG = "muster-doctor"  # as the rendezvous, which must be static or c10d
_DOMAIN = ".muster.dev"
_NONE = registry.Registry(default.DefaultStrategy())  # only the modes of the policy are used, and no strategy
_ARGS = ("--model_name_or_path=none", "--dataset_name=none", "--output_dir=/tmp")


def needs(options: Options) -> tuple[Need, ...]:
    """Return the permissions to create TrainJobs, which dry runs need too, and to find a runtime for them."""
    return (
        Need("create", "trainjobs", names.TRAINER_GROUP, options.probe_namespace),
        Need("list", "clustertrainingruntimes", names.TRAINER_GROUP),
        Need("get", "namespaces", "", "", options.probe_namespace),
        *webhooks.needs(options),
    )


async def look(installation: Installation) -> list[Diagnosis]:
    """Create both jobs, the right one several times.

    Raises:
        TransportError: the namespace, the entries or the runtimes cannot be read.
    """
    namespace = installation.options.probe_namespace
    space = await installation.get(f"/api/v1/namespaces/{namespace}")
    if space is None:
        return [
            diagnoses.unknown(CHECK, f"there is no namespace {namespace}", "name another one with --probe-namespace")
        ]
    labels = space["metadata"].get("labels") or {}
    left_out = await _left_out(installation, labels)
    if left_out:
        what = f"{left_out} excludes namespace {namespace}, so jobs there prove nothing"
        return [diagnoses.unknown(CHECK, what, "name a namespace of users with --probe-namespace")]
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
    """Create the wrong job, which Muster must refuse."""
    job = _job(runtime, {"annotations": {names.RENDEZVOUS_ANNOTATION: _WRONG}}, {})
    try:
        await _sent(installation, job)
    except transports.RefusedError as error:
        return _judged(str(error), installation.options)
    except transports.TransportError as error:
        return diagnoses.unknown(CHECK, f"a job with dryRun=All was not answered: {error}", "try again, with --timeout")
    if mode is Mode.ENFORCE:
        what = "the API server accepts a job that Muster would refuse, so it did not call Muster"
        return diagnoses.error(CHECK, what, "see the check webhooks; install again (docs/installation.md)")
    return diagnoses.ok(CHECK, f"a wrong job is let through, as expected in mode {mode.value}")


def _judged(message: str, options: Options) -> Diagnosis:
    """Explain the refusal of the wrong job."""
    if refusals.denier(message).endswith(_DOMAIN):
        return diagnoses.ok(CHECK, "the API server calls Muster, trusts its certificate and follows its refusals")
    broken = refusals.failed(message)
    if broken.endswith(_DOMAIN):
        cause, todo = refusals.explained(message)
        return diagnoses.error(CHECK, f"the API server cannot call {broken}, so no job can be created: {cause}", todo)
    if broken:
        what = f"the webhook {broken}, which is not of Muster, cannot be called: {refusals.explained(message)[0]}"
        return diagnoses.unknown(CHECK, what, "correct that webhook first; it blocks every job")
    what = f"the job of the probe was refused, but not by Muster: {message}"
    return diagnoses.unknown(
        CHECK, what, f"name a namespace where it is allowed with --probe-namespace (now {options.probe_namespace})"
    )


async def _corrected(installation: Installation, framework: str, runtime: str, mode: Mode) -> Diagnosis:
    """Create the right job several times, and check what comes back."""
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
        done = "corrected" if changed else f"left as it is, as expected in mode {mode.value},"
        return diagnoses.ok(CHECK, f"a job of runtime {runtime} is {done} and accepted {took}", **figures)
    if changed:
        what = f"a job is corrected though the mode seems to be {mode.value}"
        return diagnoses.warning(CHECK, what, "wait a minute until the replicas have loaded the configuration")
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
    """Return an entry for TrainJobs that does not match a namespace with these labels, "" for none."""
    for title, entry in await webhooks.all_of(installation):
        if "create.trainjobs" in title and not selectors.selects(entry.get("namespaceSelector"), labels):
            return title
    return ""


def _chosen(runtimes: Iterable[Document]) -> tuple[str, str]:
    """Return framework and name of the runtime that proves most, ("", "") when there is none."""
    found = {
        (str((each["metadata"].get("labels") or {}).get(names.FRAMEWORK_LABEL)), str(each["metadata"]["name"]))
        for each in runtimes
    }
    usable = sorted((_FRAMEWORKS.index(framework), name) for framework, name in found if framework in _FRAMEWORKS)
    return (_FRAMEWORKS[usable[0][0]], usable[0][1]) if usable else ("", "")
