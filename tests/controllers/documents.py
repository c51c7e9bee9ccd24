"""Pods, JobSets and namespaces as the cluster has them after admission."""

from __future__ import annotations

from muster.strategies.platform.profiles import Profile

SHARED = Profile("sampler", "gpu.example.com", sharing="shared", max_sessions=2, claims=2)
DEDICATED = Profile("trainer", "gpu.example.com", count=2)
GATE = {"name": "muster.dev/seat"}


def namespace(name="team-a", annotations=None, deleting=False):
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata | _deleting(deleting)}


def pod(name, *claims, job="", gated=True, phase="Pending", space="team-a", profile="sampler", **metadata):
    labels = {"muster.dev/profile": profile} | ({"jobset.sigs.k8s.io/jobset-name": job} if job else {})
    spec = {"resourceClaims": [{"name": f"c{i}", "resourceClaimName": each} for i, each in enumerate(claims)]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space, "labels": labels, **metadata},
        "spec": spec | ({"schedulingGates": [GATE]} if gated else {}),
        "status": {"phase": phase},
    }


def jobset(name, *jobs, space="team-a", profile="sampler", status=None):
    """A JobSet of replicated jobs, each (claim or template, pods)."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": space, "labels": {"muster.dev/profile": profile}},
        "spec": {"replicatedJobs": [_replicated(claim, pods, profile) for claim, pods in jobs]},
        "status": status or {},
    }


def _replicated(claim, pods, profile):
    key = "resourceClaimName" if claim.rpartition("-")[2].isdecimal() else "resourceClaimTemplateName"
    template = {
        "metadata": {"labels": {"muster.dev/profile": profile}},
        "spec": {"resourceClaims": [{"name": "devices", key: claim}]},
    }
    return {"name": "j", "replicas": 1, "template": {"spec": {"parallelism": pods, "template": template}}}


def _deleting(deleting):
    return {"deletionTimestamp": "2026-11-21T12:00:00Z"} if deleting else {}
