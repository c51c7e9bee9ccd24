"""Jobs and platforms for the tests of the guard in pods, and short ways to what a pod got."""

from __future__ import annotations

import copy

from msgspec import structs

from muster.strategies.launches.guard_additions import Guard
from tests.support import admissions, jobs, upstream

IMAGE = "example.org/muster:1"
LABEL = "muster.dev/guard"
UNREAD = ["bash", "-c", "./start.sh"]
COUNTED = ["torchrun", "train.py"]


def policy(inject="always", mount="init", **more):
    """A platform that offers the guard."""
    return structs.replace(admissions.POLICY, guard=Guard(inject, mount, IMAGE), **more)


def namespace(level):
    """The namespace of the jobs, with a level of the guard."""
    found = jobs.make_namespace()
    found["metadata"]["labels"][LABEL] = level
    return found


def cluster_of(command, *, container=None, pod=None, labels=None, **trainer):
    """The JobSet that Trainer makes of a TrainJob, and what governs it."""
    runtime = jobs.make_runtime("torch-distributed", framework="torch", container=container, pod=pod)
    metadata = {"uid": jobs.UID, "labels": labels or {}}
    trainjob = jobs.make_trainjob(runtime="torch-distributed", command=command, metadata=metadata, **trainer)
    made = upstream.build_jobset(upstream.default_trainjob(trainjob), runtime)
    return made, [runtime, trainjob]


def decide(document, cluster=(), policy=policy(), **how):  # noqa: B008  # a frozen value
    """What is decided; never an error."""
    decision = admissions.decide(document, *cluster, policy=policy, **how)
    assert decision.verdict in {"patched", "unchanged"}, (decision.message, decision.findings)
    return decision


def pod_of(document, job=0):
    """The pod spec of a replicated job."""
    return document["spec"]["replicatedJobs"][job]["template"]["spec"]["template"]["spec"]


def rules_of(decision):
    """The rules of the guard by which something was changed."""
    return {each.rule for each in decision.changes if each.rule.startswith("guard/")}


def left(decision):
    """What is said of containers that do not get the guard, as (severity, message)."""
    return [(each.severity.value, each.message) for each in decision.findings if each.rule == "guard/left-alone"]


def named(entries, name):
    """The entry of this name."""
    (found,) = [each for each in entries if each["name"] == name]
    return found


def changed(document, **members):
    """A copy with members of the first container set."""
    out = copy.deepcopy(document)
    pod_of(out)["containers"][0].update(members)
    return out
