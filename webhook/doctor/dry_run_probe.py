"""Checks admission from end to end: TrainJobs sent with `dryRun=All`, which are admitted and not stored.

There are two jobs. The wrong job has an annotation that only Muster refuses: its refusal proves that the API server
calls Muster, trusts its certificate and follows its answer. The right job comes back with the changes of Muster. Both
are suspended, in case anything stores a dry run.

The errors of the API server about webhook calls are explained by cause. Sources: apiserver
`pkg/admission/plugin/webhook`, Go's `crypto/x509` and `net/http`.
"""

from __future__ import annotations

import re
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Iterable, Mapping

from muster.kube import transports
from muster.strategies.documents import names
from muster.strategies.documents.decoding import member
from muster.strategies.frameworks.default import default_strategy as default
from muster.strategies.plugins import registry
from muster.webhook.admission.policies import Mode
from muster.webhook.doctor import webhook_entries
from muster.webhook.doctor.diagnoses import Diagnosis, Severity, error, ok, unknown, warning
from muster.webhook.doctor.live_installation import Document, Installation, Options

__all__ = ["probe"]

_RUNTIMES = f"/apis/{names.TRAINER_API_VERSION}/clustertrainingruntimes"
_FRAMEWORKS = ("trl", "torch")  # in this order: a replaced launch proves more than additions to one
_WRONG = "muster-doctor"  # as the rendezvous, which must be static or c10d
_DOMAIN = ".muster.dev"
_NONE = registry.Registry(default.DefaultStrategy())  # only the modes of the policy are used, and no strategy
_ARGS = ("--model_name_or_path=none", "--dataset_name=none", "--output_dir=/tmp")
_INSTALL = "install again, so that certificate and caBundle match (docs/install.md)"
_PODS = (
    "check that replicas are ready (check deployment) and that the API server can reach them (NetworkPolicy, firewall)"
)
_CAUSES: Mapping[str, tuple[str, str]] = {
    "x509: certificate signed by unknown authority": ("the certificate was not signed by a CA in caBundle", _INSTALL),
    "x509: certificate has expired": ("the certificate has expired, or a clock is wrong", _INSTALL),
    "x509: certificate is valid for|x509: cannot validate|x509: certificate is not valid for any names": (
        "the certificate is not valid for the name that is called",
        _INSTALL,
    ),
    "unable to load root certificates": ("caBundle has no certificate", _INSTALL),
    "connection refused": ("nothing listens at its address", _PODS),
    "no endpoints available": ("its Service has no ready replica", _PODS),
    r'service "[^"]+" not found': ("its Service does not exist", _INSTALL),
    "no such host": ("its host name is not in DNS", "correct the URL of the webhook entries"),
    "deadline exceeded|Client.Timeout|i/o timeout": ("it did not answer in time", _PODS),
    "the server could not find the requested resource": (
        "it does not serve the path that is called",
        "install again, to set the paths of the webhook entries (docs/install.md)",
    ),
}
_FAILED = re.compile(r'failed calling webhook "([^"]+)"')
_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request')


async def probe(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Create both jobs, the right one several times."""
    namespace = installation.options.probe_namespace
    space = await installation.get(f"/api/v1/namespaces/{namespace}")
    if space is None:
        yield unknown(f"there is no namespace {namespace}", "name another one with --probe-namespace")
        return
    labels = member(space, "metadata", "labels")
    for title, entry in await webhook_entries.all_of(installation):
        if "create.trainjobs" in title and not webhook_entries.selects(entry.get("namespaceSelector"), labels):
            what = f"{title} excludes namespace {namespace}, so jobs there prove nothing"
            yield unknown(what, "name a namespace of users with --probe-namespace")
            return
    framework, runtime = _chosen(await installation.list(_RUNTIMES))
    if not runtime:
        what = f"there is no ClusterTrainingRuntime of {' or '.join(_FRAMEWORKS)} to probe with"
        yield unknown(what, "install one (kubectl apply --server-side -k manifests/runtimes)")
        return
    mode = (await installation.configured()).policy(_NONE).mode_of(framework, labels.get(names.MODE_LABEL))
    refused = await _refused(installation, runtime, mode)
    yield refused
    if refused.severity is Severity.OK:
        yield await _corrected(installation, framework, runtime, mode)


async def _refused(installation: Installation, runtime: str, mode: Mode) -> Diagnosis:
    """Create the wrong job, which Muster must refuse."""
    job = _job(runtime, {"annotations": {names.RENDEZVOUS_ANNOTATION: _WRONG}}, {})
    try:
        await _sent(installation, job)
    except transports.RefusedError as refused:
        return _judged(str(refused), installation.options)
    except transports.TransportError as failed:
        return unknown(f"a job with dryRun=All was not answered: {failed}", "try again, with --timeout")
    if mode is Mode.ENFORCE:
        what = "the API server accepts a job that Muster would refuse, so it did not call Muster"
        return error(what, "see the check webhooks; install again (docs/install.md)")
    return ok(f"a wrong job is let through, as expected in mode {mode.value}")


def _judged(message: str, options: Options) -> Diagnosis:
    """Explain the refusal of the wrong job."""
    denier, broken = _DENIED.search(message), _FAILED.search(message)
    if denier and denier[1].endswith(_DOMAIN):
        return ok("the API server calls Muster, trusts its certificate and follows its refusals")
    if broken:
        cause, todo = _explained(message)
        if broken[1].endswith(_DOMAIN):
            return error(f"the API server cannot call {broken[1]}, so no job can be created: {cause}", todo)
        what = f"the webhook {broken[1]}, which is not of Muster, cannot be called: {cause}"
        return unknown(what, "correct that webhook first; it blocks every job")
    what = f"the job of the probe was refused, but not by Muster: {message}"
    todo = f"name a namespace where it is allowed with --probe-namespace (now {options.probe_namespace})"
    return unknown(what, todo)


def _explained(message: str) -> tuple[str, str]:
    """Return the cause of a failed call, and what to do; an unknown cause is the message of the API server."""
    for pattern, explanation in _CAUSES.items():
        if re.search(pattern, message):
            return explanation
    return message.partition("failed to call webhook: ")[2] or message, _PODS


async def _corrected(installation: Installation, framework: str, runtime: str, mode: Mode) -> Diagnosis:
    """Create the right job several times, and check what comes back."""
    trainer = {"trainer": {"command": ["trl", "sft"], "args": list(_ARGS), "numNodes": 2}} if framework == "trl" else {}
    job, seconds, answer = _job(runtime, {}, trainer), list[float](), {}
    for _ in range(installation.options.calls):
        begun = time.monotonic()
        try:
            answer = dict(await _sent(installation, job))
        except transports.TransportError as failed:
            return unknown(f"a right job is refused: {failed}", "name another --probe-namespace")
        seconds.append(time.monotonic() - begun)
    minimum, median = min(seconds), statistics.median(seconds)
    took = f"in {median * 1000:.0f} ms (median of {len(seconds)}, fastest {minimum * 1000:.0f} ms)"
    changed = names.APPLIED_ANNOTATION in member(answer, "metadata", "annotations")
    figures = {"minimumSeconds": round(minimum, 6), "medianSeconds": round(median, 6), "calls": float(len(seconds))}
    if changed == (mode is Mode.ENFORCE):
        done = "corrected" if changed else f"left as it is, as expected in mode {mode.value},"
        return ok(f"a job of runtime {runtime} is {done} and accepted {took}", **figures)
    if changed:
        what = f"a job is corrected though the mode seems to be {mode.value}"
        return warning(what, "wait a minute until the replicas have loaded the configuration")
    what = f"a job of runtime {runtime} comes back as it was sent: Muster did not correct it"
    return error(what, "see the mutating entries (check webhooks) and `muster audit` for this job's record")


def _job(runtime: str, metadata: Mapping[str, object], spec: Mapping[str, object]) -> Document:
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


def _chosen(runtimes: Iterable[Document]) -> tuple[str, str]:
    """Return framework and name of the runtime that proves most, ("", "") when there is none."""
    found = {
        (str(member(each, "metadata", "labels").get(names.FRAMEWORK_LABEL)), str(each["metadata"]["name"]))
        for each in runtimes
    }
    usable = sorted((_FRAMEWORKS.index(framework), name) for framework, name in found if framework in _FRAMEWORKS)
    return (_FRAMEWORKS[usable[0][0]], usable[0][1]) if usable else ("", "")
