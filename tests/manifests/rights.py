"""What each right is for: taken away, what fails. One entry per role, resource and verb.

The test beside this compares the table with the manifests. The suite `e2e/suites/rights` takes each right away in a
real cluster, sees what is said here, and gives it back.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["RIGHTS", "of"]

Right = tuple[str, str, str]  # role, resource with its group, verb


def _cached(resource: str, what: str) -> Iterator[tuple[Right, str]]:
    """What the webhook keeps in memory."""
    yield ("muster", resource, "get"), f"{what} that is not in memory is not fetched: a CREATE that needs it is refused"
    yield ("muster", resource, "list"), f"the cache that holds {what} is never filled: no replica becomes ready"
    yield ("muster", resource, "watch"), f"memory is no answer: {what} is fetched at each CREATE that needs it"


_CACHED = {
    "trainjobs.trainer.kubeflow.org": "a TrainJob",
    "trainingruntimes.trainer.kubeflow.org": "a runtime of a namespace",
    "clustertrainingruntimes.trainer.kubeflow.org": "a runtime of the cluster",
    "namespaces": "the mode label of a namespace",
    "configmaps": "the runtime that Trainer froze for a job",
    "resourceclaimtemplates.resource.k8s.io": "the template of a claim",
    "resourceclaims.resource.k8s.io": "a claim",
    "deviceclasses.resource.k8s.io": "a device class",
}

_NODES = {
    "list": "the cache that holds nodes is never filled: no replica becomes ready",
    "watch": "no node counts as known: nobody is warned that the nodes of a role take no such pod",
}

_WRITERS = {
    ("resourceclaims.resource.k8s.io", "create"): "shared claims of profiles are not made: their jobs wait",
    ("resourceclaims.resource.k8s.io", "patch"): "who has a seat is not written down: nobody else gets one",
    ("resourceclaims.resource.k8s.io", "delete"): "claims of profiles that nobody uses stay",
    ("resourceclaimtemplates.resource.k8s.io", "create"): "templates of profiles are not made: pods with them wait",
    ("resourceclaimtemplates.resource.k8s.io", "delete"): "templates that nobody uses stay",
    ("jobsets.jobset.x-k8s.io", "list"): "nobody knows which jobs use a profile: nobody leads, and nothing is written",
    ("jobsets.jobset.x-k8s.io", "watch"): "a new job of a profile is seen when all are listed again, up to 30 s later",
    ("pods", "get"): "nobody can tell whether a pod that has a seat is gone: the seat stays taken, and others wait",
    ("pods", "list"): "nobody knows who waits for a seat: nobody leads, and gates stay",
    ("pods", "watch"): "a pod that waits is seen when all are listed again, up to 30 s later",
    ("pods", "patch"): "gates are never opened",
    ("pods", "delete"): "ended pods keep their part in a shared claim",
    ("events", "create"): "kubectl describe does not say why a pod waits",
    ("leases.coordination.k8s.io", "create"): "there is no Lease, so nobody leads and nothing is written",
    ("leases.coordination.k8s.io", "get"): "nobody can see who leads, so nobody does",
    ("leases.coordination.k8s.io", "update"): "a Lease can neither be renewed nor taken, so nobody leads",
}

_CERTIFICATES = {
    ("secrets", "create"): "there is no Secret of authorities, and no replica becomes ready",
    ("secrets", "get"): "replicas do not know the shared authorities, and none becomes ready",
    ("secrets", "update"): "no authority can follow another: certificates end when it does",
    ("leases.coordination.k8s.io", "create"): "nobody leads: caBundle stays empty",
    ("leases.coordination.k8s.io", "get"): "nobody leads: caBundle stays empty",
    ("leases.coordination.k8s.io", "update"): "a leader can neither stay nor be followed: caBundle is not repaired",
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", "get"): "no replica becomes ready",
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", "patch"): "caBundle of what mutates stays empty",
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", "get"): "no replica becomes ready",
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", "patch"): "caBundle of what validates stays empty",
}

_TRAININGS = {
    ("events", "create"): "no Event tells that a training is not as was asked for; the annotation does",
    ("pods", "list"): "nobody reads what guards reported before: what no pod reports again is not kept",
    ("pods", "watch"): "what a guard reports is read when all pods are listed again, if its pod is still there",
    ("jobsets.jobset.x-k8s.io", "get"): "nobody knows what is kept of a training: nothing is written",
    ("jobsets.jobset.x-k8s.io", "patch"): "what a guard reported goes with its pod",
    ("leases.coordination.k8s.io", "create"): "there is no Lease, so nobody leads and nothing is kept",
    ("leases.coordination.k8s.io", "get"): "nobody can see who leads, so nothing is kept",
    ("leases.coordination.k8s.io", "update"): "a Lease can neither be renewed nor taken, so nothing is kept",
}

_DRY_RUNS = {
    ("pods", "create"): "what an API server refuses of a pod is told when its controller makes it: the job is let in",
    ("jobs.batch", "create"): "what an API server refuses of a Job is told when JobSet makes it: the job is let in",
}

_EVENTS = {
    ("events", "create"): "a refusal makes no Event",
    ("events", "patch"): "a refusal that comes again is not counted up",
}

_ANCHORS = {
    ("configmaps", "create"): "nothing is noted about the audit log: a log that was cut off looks whole",
    ("configmaps", "update"): "what is noted about the audit log is never renewed: what was cut off since looks whole",
}

_REPORTS = {
    "create": "a namespace gets no report",
    "get": "nobody knows what a report says, so none is written",
    "update": "a report keeps saying what it said first",
}
_REPORTERS = {"muster-openreports": "reports.openreports.io", "muster-policyreports": "policyreports.wgpolicyk8s.io"}

RIGHTS: dict[Right, str] = dict(
    [
        *(each for resource, what in _CACHED.items() for each in _cached(resource, what)),
        *((("muster", "nodes", verb), said) for verb, said in _NODES.items()),
        *((("muster-controllers", *key), said) for key, said in _WRITERS.items()),
        *((("muster-certificates", *key), said) for key, said in _CERTIFICATES.items()),
        *((("muster-trainings", *key), said) for key, said in _TRAININGS.items()),
        *((("muster-dry-runs", *key), said) for key, said in _DRY_RUNS.items()),
        *((("muster-anchors", *key), said) for key, said in _ANCHORS.items()),
        *((("muster-events", *key), said) for key, said in _EVENTS.items()),
        *(((role, kind, verb), said) for role, kind in _REPORTERS.items() for verb, said in _REPORTS.items()),
    ]
)


def of(role: dict[str, object]) -> Iterator[Right]:
    """The rights in a Role or a ClusterRole."""
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                named = f"{resource}.{group}" if group else resource
                yield from ((role["metadata"]["name"], named, verb) for verb in rule["verbs"])
