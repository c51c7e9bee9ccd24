"""A second review of a job changes nothing more, whatever parts its JobSet lacks and whoever says which role they have.

Muster writes the nearest role label on the pods, where another review finds it.
"""

from __future__ import annotations

import orjson
import pytest

from muster.webhook.admission import decisions, reviews
from tests.attacks.scenes import FRAMEWORKS, LENGTHS, of_kind, platform, property_of, put, scene
from tests.fuzz import cases
from tests.roles.places import ROLE
from tests.support import admissions, jobs

LABELS = [
    *((ROLE, role) for role in ("trainer", "sampler")),
    *(("training.kubeflow.org/replica-type", kind) for kind in ("worker", "evaluator")),
    (jobs.FRAMEWORK, "vllm"),
    *((jobs.ANCESTOR, step) for step in ("trainer", "model-initializer")),
]
POD = ("template", "spec", "template", "spec")


def mutated(subject, cluster, policy):
    request = reviews.parse(orjson.dumps(admissions.make_review(subject)), "mutate")
    return decisions.evaluate(request, admissions.make_reader(*cluster), policy)


def labelled(random, holder):
    """Label an object, or not."""
    if random.random() < 0.3:
        holder["metadata"] = holder.get("metadata") or {}
        put(holder["metadata"], "labels", *random.choice(LABELS))


def replicated(random, subject):
    """The replicated jobs of a JobSet, sometimes with one more."""
    every = subject["spec"].get("replicatedJobs") or []
    if every and random.random() < 0.5:
        name = random.choice(("model-initializer", "dataset-initializer", "other", "launcher"))
        every.insert(random.randint(0, len(every)), {**cases.copied(random.choice(every)), "name": name})
    return every


def emptied(random, job):
    """Take a part of a replicated job away, or leave nothing in it."""
    depth = random.randint(1, len(POD))
    holder = job
    for member in POD[: depth - 1]:
        holder = holder[member]
    if random.random() < 0.4:
        holder.pop(POD[depth - 1], None)
    else:
        holder[POD[depth - 1]] = random.choice((None, {}, {"containers": []} if depth == len(POD) else {}))


@pytest.mark.parametrize("examples", LENGTHS)
def test_a_second_review_of_a_jobset_with_odd_templates_changes_nothing_more(examples):
    def holds(random):
        (subject, cluster), policy = scene(random, "JobSet", "owned"), platform(random, mode="enforce")
        if random.random() < 0.4:
            put(subject["metadata"], "labels", jobs.FRAMEWORK, random.choice(FRAMEWORKS))
        for each in (subject, *of_kind(cluster, "TrainJob", "ClusterTrainingRuntime", "TrainingRuntime")):
            labelled(random, each)
        for job in replicated(random, subject):
            labelled(random, job["template"])
            labelled(random, job["template"]["spec"]["template"])
            if random.random() < 0.4:
                emptied(random, job)
        once = cases.copied(dict(mutated(subject, cluster, policy).document))
        again = mutated(once, cluster, policy)
        assert [each.field for each in again.changes] == []

    property_of(holds, examples)
