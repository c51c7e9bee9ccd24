"""Material of the tests of claims: profiles, a policy that offers them, and the cluster's objects about devices."""

from __future__ import annotations

import json

from muster.strategies.frameworks import builtin
from muster.strategies.jobs.jobs import Settings
from muster.strategies.platform.profiles import Profile
from muster.webhook.admission.policies import FrameworkPolicy, Policy
from tests.support import admissions, jobs

GPU = "nvidia.com/gpu"
CLASS = "gpu.nvidia.com"
PROFILE = "muster.dev/claim-profile"
CLAIMS = "muster.dev/resource-claims"
OFFERED = (
    Profile("quad", CLASS, count=4, replaces=GPU),
    Profile("plain", CLASS, count=2),
    Profile("large", CLASS, count=1, selectors=("device.attributes['x'].y == 'z'",)),
    Profile("tuned", CLASS, config=({"driver": CLASS, "parameters": {"kind": "GpuConfig"}},)),
    Profile("seats", CLASS, sharing="shared", max_sessions=2, claims=3),
    Profile("strict", CLASS, sharing="shared", max_sessions=2, claims=2, when_full="deny"),
)


def policy(*profiles, roles=None, **frameworks):
    """A policy that offers these profiles, or else `OFFERED`; keywords are profiles of frameworks."""
    given = {name: FrameworkPolicy(settings=Settings(profile=profile)) for name, profile in frameworks.items()}
    return Policy(
        registry=builtin.load(plugins=False),
        profiles={each.name: each for each in profiles or OFFERED},
        frameworks=given,
        roles=roles or {},
    )


def device_class(name=CLASS, extended_resource=GPU):
    """A DeviceClass; one that maps no extended resource with None."""
    spec = {"extendedResourceName": extended_resource} if extended_resource else {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def seated(name, *pods, job="other"):
    """A shared ResourceClaim whose seats these pods hold."""
    seats = {f"uid-{pod}": {"pod": pod, "job": job, "since": "2026-11-21T00:00:00Z"} for pod in pods}
    metadata = {"name": name, "namespace": jobs.NAMESPACE, "labels": {"muster.dev/profile": "seats"}}
    metadata["annotations"] = {"muster.dev/seats": json.dumps(seats)}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {}}


def template(name="two", count=2, kind="ResourceClaimTemplate", device_class_name=CLASS):
    """A ResourceClaimTemplate, or a ResourceClaim, of a job's own."""
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class_name, "count": count}}
    spec = {"devices": {"requests": [request]}}
    metadata = {"name": name, "namespace": jobs.NAMESPACE}
    spec = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def annotated(**annotations):
    """Metadata with the annotations `profile` and `claims`."""
    keys = {"profile": PROFILE, "claims": CLAIMS}
    values = {keys[key]: value if isinstance(value, str) else json.dumps(value) for key, value in annotations.items()}
    return {"annotations": values}


def stored(document, *cluster, **how):
    """The document as Muster's mutation leaves it."""
    return admissions.decide(document, *cluster, **{"policy": policy(), **how}).document


def judged(document, *cluster, **how):
    """Findings about the document as it will be stored: (rule, field) of each error, and of each warning."""
    how = {"policy": policy(), **how}
    out = admissions.decide(document, *cluster, **how).document
    found = admissions.decide(out, *cluster, phase="validate", **how).findings
    return [each for each in found if each.rule.startswith("claims/")]


def errors(document, *cluster, **how):
    """Rules of the errors about claims."""
    return [each.rule for each in judged(document, *cluster, **how) if each.severity.value == "error"]


def pod_of(document, job=0):
    """The pod spec of a JobSet's replicated job."""
    return document["spec"]["replicatedJobs"][job]["template"]["spec"]["template"]["spec"]


def two_jobs(**templates):
    """A JobSet of replicated jobs `trainer` and `sampler`; keywords are metadata of their templates."""
    jobset = jobs.make_jobset(framework="torch", container={"command": ["torchrun", "x.py"]})
    (first,) = jobset["spec"]["replicatedJobs"]
    every = []
    for name in ("trainer", "sampler"):
        job = json.loads(json.dumps(first))
        job["name"] = name
        job["template"]["metadata"] = templates.get(name, {})
        every.append(job)
    jobset["spec"]["replicatedJobs"] = every
    return jobset
