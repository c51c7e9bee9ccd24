"""A role's pods run on the role's nodes; what the user wrote is narrowed, kept, and contradicted aloud."""

from __future__ import annotations

import pytest

from tests.roles import places
from tests.support import admissions, jobs

SPEC = "spec.replicatedJobs[server].template.spec.template.spec"
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


def make_affine(*terms, **more):
    required = {"nodeSelectorTerms": [*terms]}
    return places.make_sampler(pod={"affinity": {"nodeAffinity": {places.REQUIRED: required}}, **more})


def terms_of(document):
    affinity = places.pod_of(document)["spec"]["affinity"]["nodeAffinity"]
    return affinity[places.REQUIRED]["nodeSelectorTerms"]


def test_pods_without_an_affinity_get_the_roles():
    assert terms_of(places.placed(places.make_sampler())) == [{"matchExpressions": [places.EXPRESSION]}]


def test_preferences_of_the_user_stay_beside_it():
    preferred = [{"weight": 1, "preference": {"matchExpressions": [ZONE]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    out = places.placed(places.make_sampler(pod={"affinity": affinity}))
    kept = places.pod_of(out)["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert kept == preferred
    assert terms_of(out) == [{"matchExpressions": [places.EXPRESSION]}]


def test_each_of_the_users_terms_is_narrowed_because_any_one_of_them_is_enough():
    names = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    out = places.placed(make_affine({"matchExpressions": [ZONE]}, names))
    assert terms_of(out) == [
        {"matchExpressions": [ZONE, places.EXPRESSION]},
        {**names, "matchExpressions": [places.EXPRESSION]},
    ]


@pytest.mark.parametrize("count", [32, 33])
def test_many_terms_are_narrowed_as_few_are_and_in_one_change(count):
    jobset = make_affine({}, *({"matchExpressions": [{**ZONE, "values": [f"z{n}"]}]} for n in range(count - 1)))
    decision = admissions.decide(jobset, policy=places.POLICY)
    empty, *others = terms_of(decision.document)
    assert empty == {}
    assert [each["matchExpressions"][1:] for each in others] == [[places.EXPRESSION]] * (count - 1)
    changes = [each for each in decision.changes if each.rule == "roles/node-affinity"]
    assert len(changes) == (count - 1 if count == 32 else 1)
    assert {each.unit for each in changes} == {f"{SPEC}.affinity.nodeAffinity.{places.REQUIRED}"}
    assert terms_of(admissions.decide(decision.document, policy=places.POLICY).document) == [empty, *others]


def test_a_term_that_matches_no_node_does_not_become_one_that_does():
    out = places.placed(make_affine({}, {"matchExpressions": [ZONE]}))
    assert terms_of(out) == [{}, {"matchExpressions": [ZONE, places.EXPRESSION]}]


def test_an_expression_that_is_narrower_already_is_not_repeated():
    own = {"key": "pool", "operator": "In", "values": ["both"]}
    jobset = make_affine({"matchExpressions": [own]})
    assert terms_of(places.placed(jobset)) == [{"matchExpressions": [own]}]
    assert places.said(jobset) == []


def test_the_change_says_whose_word_it_was_and_where_the_role_runs():
    changes = admissions.decide(places.make_sampler(), policy=places.POLICY).changes
    (change,) = (change for change in changes if change.rule == "roles/node-affinity")
    assert change.field == f"{SPEC}.affinity"
    expected = "role sampler, set by the replicated job's label, runs on nodes with pool=sampling|both"
    assert change.reason == expected


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "pool", "operator": "In", "values": ["cpu", "training"]},
        {"key": "pool", "operator": "NotIn", "values": ["both", "sampling", "cpu"]},
        {"key": "pool", "operator": "DoesNotExist"},
        {"key": "pool", "operator": "Gt", "values": ["4"]},
        {"key": "pool", "operator": "Lt", "values": ["4"]},
    ],
    ids=lambda expression: expression["operator"],
)
def test_an_affinity_that_no_node_of_the_role_can_match_is_an_error_and_stays_as_it_is(expression):
    jobset = make_affine({"matchExpressions": [expression]})
    field = f"{SPEC}.affinity.nodeAffinity.{places.REQUIRED}.nodeSelectorTerms"
    assert places.said(jobset) == [("error", field, "roles/node-affinity")]
    assert expression in terms_of(places.placed(jobset))[0]["matchExpressions"]


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "pool", "operator": "In", "values": ["both", "cpu"]},
        {"key": "pool", "operator": "NotIn", "values": ["both"]},
        {"key": "pool", "operator": "Exists"},
        {"key": "zone", "operator": "DoesNotExist"},
    ],
    ids=lambda expression: expression["operator"],
)
def test_an_affinity_that_some_node_of_the_role_can_match_is_fine(expression):
    assert places.said(make_affine({"matchExpressions": [expression]})) == []


def test_an_operator_that_kubernetes_does_not_know_is_no_contradiction():
    assert (
        places.said(make_affine({"matchExpressions": [{"key": "pool", "operator": "Unheard", "values": ["x"]}]})) == []
    )


def test_two_expressions_that_leave_no_value_between_them_are_a_contradiction():
    first, second = ({"key": "pool", "operator": "NotIn", "values": [value]} for value in ("both", "sampling"))
    assert [severity for severity, *_ in places.said(make_affine({"matchExpressions": [first, second]}))] == ["error"]


def test_one_term_that_can_match_is_enough():
    wrong = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["cpu"]}]}
    assert places.said(make_affine(wrong, {"matchExpressions": [ZONE]})) == []


def test_each_of_the_roles_labels_has_to_be_possible():
    policy = places.policy(node_labels={"pool": ("both",), "tier": ("gold",)})
    jobset = make_affine({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]})
    assert [severity for severity, *_ in places.said(jobset, policy=policy)] == ["error"]


def test_terms_that_match_nothing_are_the_users_own_affair_where_the_role_is_on_all_nodes():
    assert places.said(make_affine({}), policy=places.policy(node_labels={})) == []


def test_terms_that_all_match_nothing_are_an_error():
    assert [rule for *_, rule in places.said(make_affine({}))] == ["roles/node-affinity"]


def test_numbers_are_compared_as_the_scheduler_does():
    policy = places.policy(node_labels={"gen": ("3", "5")})
    for bound, found in (("4", []), ("5", ["error"]), ("x", ["error"])):
        jobset = make_affine({"matchExpressions": [{"key": "gen", "operator": "Gt", "values": [bound]}]})
        assert [severity for severity, *_ in places.said(jobset, policy=policy)] == found


def test_a_node_selector_for_other_nodes_is_an_error_that_names_the_label():
    jobset = places.make_sampler(pod={"nodeSelector": {"pool": "cpu", "zone": "a"}})
    assert places.said(jobset) == [("error", f"{SPEC}.nodeSelector.pool", "roles/node-affinity")]
    assert "no node of role sampler has this label, because the role runs on nodes with pool=sampling|both" in str(
        places.messages(jobset)
    )
    assert places.pod_of(places.placed(jobset))["spec"]["nodeSelector"] == {"pool": "cpu", "zone": "a"}


def test_a_node_selector_for_the_roles_nodes_is_fine():
    assert places.said(places.make_sampler(pod={"nodeSelector": {"pool": "both"}})) == []


def test_what_musters_own_affinity_makes_is_no_contradiction():
    assert places.said(places.placed(make_affine({"matchExpressions": [ZONE]}))) == []


def test_a_contradiction_in_the_runtime_is_said_when_the_trainjob_is_applied():
    runtime = jobs.make_runtime(pod={"nodeSelector": {"pool": "cpu"}})
    trainjob = jobs.make_trainjob(metadata={"labels": {places.ROLE: "trainer"}})
    assert places.said(trainjob, runtime) == [("error", "spec.runtimeRef.name", "roles/node-affinity")]
    assert "replicatedJobs[node].template.spec.template.spec.nodeSelector.pool: 'cpu': no node of role trainer" in str(
        places.messages(trainjob, runtime)
    )


OTHERS = {"key": "pool", "operator": "In", "values": ["cpu"]}
PLACED_BY_PATCH = {
    "a selector": {"nodeSelector": {"pool": "cpu"}},
    "an affinity": {
        "affinity": {
            "nodeAffinity": {places.REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OTHERS]}]}},
        }
    },
}


@pytest.mark.parametrize("spec", PLACED_BY_PATCH.values(), ids=PLACED_BY_PATCH)
def test_a_contradiction_in_a_patch_of_the_trainjob_is_said_when_it_is_applied(spec):
    pod = {"spec": spec}
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    patch = {"manager": "a.example/b", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
    trainjob = jobs.make_trainjob(metadata={"labels": {places.ROLE: "trainer"}}, spec={"runtimePatches": [patch]})
    own = (
        "spec.runtimePatches[a.example/b].trainingRuntimeSpec.template.spec.replicatedJobs[node].template.spec.template"
    )
    inside = "nodeSelector.pool" if "nodeSelector" in spec else "affinity.nodeAffinity"
    ((severity, field, rule),) = places.said(trainjob, jobs.make_runtime())
    assert (severity, rule) == ("error", "roles/node-affinity")
    assert field.startswith(f"{own}.spec.{inside}")


def test_a_role_on_all_nodes_gets_no_affinity():
    out = places.placed(places.make_sampler(), policy=places.policy(node_labels={}, apart=False))
    assert "affinity" not in places.pod_of(out)["spec"]
