"""Roles, JobSets and nodes for the tests of placement, and short ways to what is asked of a decision."""

from __future__ import annotations

import copy

from msgspec import structs

from muster.strategies.platform.placements import Role
from tests.support import admissions, jobs

ROLE = "muster.dev/role"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINTED = {"key": "dedicated", "operator": "Equal", "value": "trainer", "effect": "NoSchedule"}
OPEN = {"key": "dedicated", "operator": "Equal", "value": "sampler", "effect": "NoSchedule"}
ROLES = {
    "trainer": Role("trainer", {"pool": ("training",)}, (TAINTED,), apart=True),
    "sampler": Role("sampler", {"pool": ("sampling", "both")}, (OPEN,), apart=True, spread="kubernetes.io/hostname"),
}
POLICY = structs.replace(admissions.POLICY, roles=ROLES)
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {}}
EXPRESSION = {"key": "pool", "operator": "In", "values": ["sampling", "both"]}


def policy(**changed):
    """The policy of `ROLES`, with members of the sampler changed."""
    return structs.replace(
        POLICY, roles={**ROLES, "sampler": structs.replace(ROLES["sampler"], **changed)} if changed else ROLES
    )


def make_sampler(role="sampler", *, pod=None, container=None, **more):
    """A JobSet of one replicated job whose template carries the role's label."""
    jobset = jobs.make_jobset(container={"command": ["sleep", "1"], **(container or {})}, framework=None, **more)
    template = jobset["spec"]["replicatedJobs"][0]["template"]
    if role is not None:
        template["metadata"] = {"labels": {ROLE: role}}
    template["spec"]["template"]["spec"].update(copy.deepcopy(pod or {}))
    return jobset


def pod_of(jobset, job=0):
    """The pod template of a replicated job."""
    return jobset["spec"]["replicatedJobs"][job]["template"]["spec"]["template"]


def placed(document, *cluster, policy=POLICY):
    """What is stored after CREATE."""
    out = admissions.patched(document, admissions.respond(document, *cluster, policy=policy))
    assert admissions.decide(out, *cluster, policy=policy).verdict == "unchanged"
    return out


def said(document, *cluster, policy=POLICY, **how):
    """What is found, as (severity, field, rule)."""
    found = admissions.decide(document, *cluster, phase="validate", policy=policy, **how).findings
    return [(each.severity.value, each.field, each.rule) for each in found]


def messages(document, *cluster, policy=POLICY):
    """What is found, in words."""
    return [str(each) for each in admissions.decide(document, *cluster, phase="validate", policy=policy).findings]


def make_node(name="n1", *, labels=None, memory="48Gi", taints=()):
    """A node of the sampler's pool."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": "sampling"} if labels is None else labels},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "8"}},
    }
    if memory:
        node["status"]["allocatable"]["memory"] = memory
    return node
