"""Scenes of the attacks: jobs of the corpus and of other tests, each with its cluster, and platforms with any modes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.webhook.admission.policies import Mode
from tests.fuzz import cases, skeletons
from tests.support import jobs

__all__ = ["FRAMEWORKS", "LENGTHS", "MODES", "around", "of_kind", "platform", "property_of", "put", "scene"]

FRAMEWORKS = ("torch", "trl", "torchtune", "vllm", "default", "jax", "unknown")
MODES = [mode.value for mode in Mode]
LENGTHS = [60, pytest.param(1000, marks=pytest.mark.thorough)]


def property_of(check, examples):
    """Draw examples of a property, which gets a source of random choices."""
    settings(max_examples=examples)(given(st.randoms(use_true_random=True))(check))()


def platform(random, mode=None):
    """Modes for all frameworks and for some alone, or one mode; claims, roles and failing open are on or off."""
    modes = {each: random.choice(MODES) for each in FRAMEWORKS if mode is None and random.random() < 0.5}
    wanted = {"mode": mode or random.choice(MODES), "modes": modes, "failure": random.choice(("deny", "allow"))}
    return cases.policy_of({**wanted, "roles": random.random() < 0.5, "profiles": random.random() < 0.5})


def scene(random, *kinds):
    """A job of one of these kinds (`owned` is a JobSet that Trainer made) with its cluster."""
    kind = random.choice(kinds or ("TrainJob", "JobSet", "owned"))
    while True:
        world = skeletons.of(random.choice(skeletons.worlds()))
        subject, cluster = random.choice(world["subjects"]), world["cluster"]
        if subject["kind"] == "TrainJob" and kind == "owned":
            subject, cluster = skeletons.follow(subject, cluster) or (subject, cluster)
        subject["spec"] = subject.get("spec") or {}
        if subject["kind"] == ("JobSet" if kind == "owned" else kind) and (kind == "owned") == is_owned(subject):
            subject["metadata"].setdefault("namespace", jobs.NAMESPACE)
            return subject, [each for each in cluster if each["kind"] != "Namespace"]


def is_owned(subject):
    return any(each.get("kind") == "TrainJob" for each in subject["metadata"].get("ownerReferences") or ())


def put(metadata, member, key, value):
    metadata[member] = {**(metadata.get(member) or {}), key: value}


def around(subject):
    """The metadata of a job and of the templates in it."""
    yield subject["metadata"]
    for job in (subject.get("spec") or {}).get("replicatedJobs") or ():
        for holder in (job["template"], job["template"]["spec"]["template"]):
            holder["metadata"] = holder.get("metadata") or {}
            yield holder["metadata"]


def of_kind(cluster, *kinds):
    return [each for each in cluster if each["kind"] in kinds]
