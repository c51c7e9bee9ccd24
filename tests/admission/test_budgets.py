"""What is larger than its budget is answered by its mode and never read; what is smaller is not touched."""

from __future__ import annotations

from unittest import mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from muster.strategies.documents import nesting
from muster.webhook.admission import budgets, decisions, reviews
from muster.webhook.admission.budgets import Budget
from muster.webhook.admission.policies import FrameworkPolicy, Mode
from tests.support import acmes, admissions, jobs
from tests.support.admissions import POLICY

BUDGET = Budget()
BIG = "x" * (BUDGET.text + 1)


def nested(levels):
    found = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def job(**trainer):
    return jobs.make_trainjob(**{"command": ["torchrun", "train.py"], "numNodes": 2, **trainer})


def jobset(count):
    made = jobs.make_jobset("many")
    (one,) = made["spec"]["replicatedJobs"]
    made["spec"]["replicatedJobs"] = [{**one, "name": f"job-{number}"} for number in range(count)]
    return made


def containers(count):
    made = jobs.make_jobset("many")
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"] = [{**pod["containers"][0], "name": f"c{number}"} for number in range(count)]
    return made


def claims(count):
    made = jobset(4)
    for each in made["spec"]["replicatedJobs"]:
        pod = {**each["template"]["spec"]["template"]["spec"]}
        pod["resourceClaims"] = [{"name": f"q{number}", "resourceClaimTemplateName": "two"} for number in range(count)]
        using = {"claims": [{"name": f"q{number}"} for number in range(count)]}
        pod["containers"] = [{**pod["containers"][0], "resources": using}]
        each["template"] = {"spec": {"template": {"spec": pod}}}
    return made


BEYOND = {
    "nesting": ({"spec": nested(BUDGET.nesting)}, "spec.a.a"),
    "entries": ({"spec": {"list": [1] * (BUDGET.entries + 1)}}, "spec.list"),
    "values": ({"spec": [[0] * 4000] * (BUDGET.values // 4000 + 1)}, "spec["),
    "replicatedJobs": (jobset(BUDGET.replicated_jobs + 1), "spec.replicatedJobs"),
    "containers": (containers(BUDGET.containers + 1), "containers"),
    "claims": (claims(BUDGET.claims // 8 + 1), "claims"),
    "text": ({"spec": {"a": BIG}}, "spec"),
    "name": ({"spec": {"k" * (BUDGET.name + 1): 1}}, "spec.kkk"),
    "number": ({"spec": {"count": 10**5000}}, "spec.count"),
}


@pytest.mark.parametrize("key", BEYOND)
def test_the_first_limit_that_is_passed_is_told_with_field_and_limit(key):
    document, field = BEYOND[key]
    found = budgets.check(document, BUDGET)
    assert found is not None
    assert found.rule == "core/budget"
    assert found.field.startswith(field) or field in found.field
    assert str(BUDGET.limits[key]) in found.message
    assert len(str(found)) < 1000


@pytest.mark.parametrize(
    "document",
    [
        jobset(100),
        containers(64),
        claims(64),
        job(env=[{"name": f"E{number}", "value": "x" * 100} for number in range(1000)]),
        job(args=["-c", "echo ready\n" * 6000]),
        {"metadata": {"annotations": {"example.org/state": BIG}}},
        {"metadata": {"managedFields": [nested(500)]}, "status": {"conditions": [1] * 100_000}},
        {"spec": {"small": -(2**63), "large": 2**64 - 1, "float": 1e308}},
    ],
)
def test_what_large_jobs_hold_is_within(document):
    assert budgets.check(document, BUDGET) is None


@pytest.mark.parametrize("size", [0, 1, 65, BUDGET.nesting - 3])
def test_the_limits_themselves_are_within(size):
    assert budgets.check({"spec": nested(size)}, BUDGET) is None
    assert budgets.check({"spec": [0] * (BUDGET.entries - size)}, BUDGET) is None


NAMES = st.sampled_from(["replicatedJobs", "containers", "env", "claims", "command", "name", "}{", ',"['])
VALUES = st.recursive(
    st.none() | st.integers(0, 9) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
LIMITS = st.fixed_dictionaries(
    {name: st.integers(1, 40) for name in Budget.__struct_fields__} | dict.fromkeys(("text", "name"), st.just(400))
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.dictionaries(NAMES, VALUES, max_size=2), LIMITS)
def test_where_a_review_fits_no_walk_finds_a_document_beyond_a_limit(document, more, limits):
    body, patch, budget = orjson.dumps({"request": {"object": document}}), orjson.dumps([more]), Budget(**limits)
    review = budgets.extent(body, nesting.levels(body, document))
    with mock.patch.object(budgets.Extent, "fits", return_value=False):
        held, patched = budgets.check(document, budget), budgets.check({**document, "more": more}, budget)
    assert not review.fits(budget) or held is None
    assert not review.beside(budgets.extent(patch)).fits(budget) or patched is None


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [(Mode.ENFORCE, "denied"), (Mode.WARN, "allowed"), (Mode.AUDIT, "allowed"), (Mode.OFF, "skipped")],
)
def test_a_job_beyond_its_budget_is_answered_by_the_mode(mode, verdict):
    policy = structs.replace(POLICY, mode=mode)
    decision = admissions.decide(job(args=[BIG]), jobs.make_runtime(), phase="validate", policy=policy)
    assert decision.verdict == verdict
    assert [each.rule for each in decision.findings] == (["core/budget"] if mode is not Mode.OFF else [])


def test_mutation_leaves_it_as_it_is():
    decision = admissions.decide(job(args=[BIG]), jobs.make_runtime())
    assert decision.verdict == "unchanged"
    assert not len(decision.changes)


def test_a_runtime_beyond_its_budget_is_named():
    runtime = jobs.make_runtime()
    runtime["spec"]["note"] = BIG
    (found,) = admissions.decide(job(), runtime, phase="validate").findings
    assert runtime["metadata"]["name"] in found.field
    assert found.rule == "core/budget"


@pytest.mark.parametrize("phase", ["mutate", "validate"])
@pytest.mark.parametrize("member", ["args", "suspend"])
def test_an_update_passes_untouched_so_that_a_job_can_always_end(phase, member):
    old = job(args=[BIG * 3])
    new = {**old, "spec": {**old["spec"], "suspend": True}} if member == "suspend" else job(args=["--x", BIG * 3])
    decision = admissions.decide(new, jobs.make_runtime(), phase=phase, operation="UPDATE", old=old)
    assert decision.allowed
    assert not decision.findings


@pytest.mark.parametrize("written", ['{"fields": {}}', None])
def test_an_update_beyond_the_budget_cannot_change_the_memory(written):
    old, new = job(args=[BIG * 3]), job(args=["--x", BIG * 3])
    old["metadata"] = {**old["metadata"], "annotations": {"muster.dev/applied": "{}"}}
    new["metadata"] = {**new["metadata"], "annotations": {"muster.dev/applied": written} if written else None}
    response = admissions.respond(new, jobs.make_runtime(), operation="UPDATE", old=old)
    assert admissions.patched(new, response)["metadata"]["annotations"] == {"muster.dev/applied": "{}"}
    assert len(admissions.patch_of(response)) == 1


@pytest.mark.parametrize("metadata", ["text", {"annotations": "text"}, {"annotations": [1]}])
def test_an_update_beyond_the_budget_may_have_any_shape(metadata):
    old, new = job(args=[BIG * 3]), {**job(args=[BIG * 3]), "metadata": metadata}
    old["metadata"] = {**old["metadata"], "annotations": {"muster.dev/applied": "{}"}}
    assert admissions.decide(new, jobs.make_runtime(), operation="UPDATE", old=old, name="x").verdict == "unchanged"


def test_for_an_update_only_the_outline_of_the_runtime_is_read():
    runtime = jobs.make_runtime()
    runtime["spec"]["note"] = BIG
    old = jobs.make_trainjob()
    decision = admissions.decide(job(), runtime, phase="validate", operation="UPDATE", old=old)
    assert decision.verdict == "denied"
    assert "note" not in decision.governor.runtime.document["spec"]


def owned(made):
    """The TrainJob that a JobSet says it was made of, which any author can write."""
    owner = jobs.make_trainjob(made["metadata"]["name"], metadata={"uid": "1"})
    reference = {"apiVersion": owner["apiVersion"], "kind": "TrainJob", "name": owner["metadata"]["name"], "uid": "1"}
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return owner


@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_neither_an_owner_nor_a_memory_gives_a_larger_budget(phase):
    made = jobset(BUDGET.replicated_jobs + 1)
    owner = owned(made)
    made["metadata"]["annotations"] = {"muster.dev/applied": "{}"}
    assert [each.rule for each in admissions.decide(made, owner, phase=phase).findings] == ["core/budget"]


def test_the_budget_comes_before_everything_else():
    """The object is not even looked at for the shape of its kind."""
    review = admissions.make_review({"kind": "TrainJob", "metadata": {}, "spec": {"trainer": [BIG]}})
    request = reviews.parse(reviews.orjson.dumps(review), "validate")
    found = decisions.evaluate(request, admissions.make_reader(), POLICY).findings
    assert [each.rule for each in found] == ["core/budget"]


@pytest.mark.parametrize("weak", [Mode.OFF, Mode.WARN, Mode.AUDIT])
def test_a_label_that_the_author_of_a_jobset_chose_does_not_weaken_the_mode(weak):
    policy = structs.replace(POLICY, frameworks={"torch": FrameworkPolicy(weak)})
    labelled = jobs.make_jobset("mine", framework="torch")
    assert admissions.decide(labelled, phase="validate", policy=policy).mode is Mode.ENFORCE


def test_such_a_label_may_make_it_stricter():
    policy = structs.replace(POLICY, mode=Mode.WARN, frameworks={"torch": FrameworkPolicy(Mode.ENFORCE)})
    labelled = jobs.make_jobset("mine", framework="torch")
    assert admissions.decide(labelled, phase="validate", policy=policy).mode is Mode.ENFORCE


def test_the_label_of_a_runtime_counts_in_full():
    policy = structs.replace(POLICY, frameworks={"torch": FrameworkPolicy(Mode.WARN)})
    decision = admissions.decide(job(), jobs.make_runtime(framework="torch"), phase="validate", policy=policy)
    assert decision.mode is Mode.WARN


def tight(*documents):
    """A policy with the smallest budget that these documents are within."""
    limits = dict.fromkeys(Budget.__struct_fields__, 1) | {"name": BUDGET.name, "nesting": 32}
    while found := next(filter(None, (budgets.check(each, Budget(**limits)) for each in documents)), None):
        key = found.message.partition("budget.")[2].partition(" ")[0]
        limits[{"replicatedJobs": "replicated_jobs"}.get(key, key)] = found.value
    return structs.replace(POLICY, budget=Budget(**limits))


LONG = "--note=" + "x" * 5000


@pytest.mark.parametrize(
    ("document", "cluster"),
    [
        (job(command=["trl", "sft"], args=[LONG]), [jobs.make_runtime(framework="trl")]),
        (jobs.make_jobset("one", framework="torch", container={"command": ["torchrun", "train.py"]}), []),
        (jobs.make_jobset("two", framework="vllm", container={"command": ["vllm", "serve", "m"]}), []),
    ],
)
def test_what_mutation_would_add_beyond_the_budget_is_refused_at_once(document, cluster):
    policy = tight(document, *cluster)
    decision = admissions.decide(document, *cluster, policy=policy)
    assert (decision.verdict, [each.rule for each in decision.findings]) == ("denied", ["core/budget"])
    changed = admissions.patched(document, admissions.respond(document, *cluster))
    again = tight(changed, *cluster)
    assert "patch" not in admissions.respond(changed, *cluster, policy=again)
    found = admissions.decide(changed, *cluster, phase="validate", policy=again).findings
    assert "core/budget" not in [each.rule for each in found]


def test_what_a_strategy_adds_beyond_the_budget_is_refused_at_once():
    long = acmes.acme(
        enforce_command=lambda _, changes: changes.set(acmes.COMMAND, ["x" * (BUDGET.text * 2)], **acmes.WHY)
    )
    decision = acmes.decide(long)
    assert (decision.verdict, [each.rule for each in decision.findings]) == ("denied", ["core/budget"])
    assert "patch" not in admissions.respond(acmes.JOB, acmes.RUNTIME, policy=admissions.policy_with(long))
