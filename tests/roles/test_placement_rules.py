"""The rules of mutation, for placement: once is enough, nothing of the user's is lost, and no order matters."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from muster.strategies import roles
from muster.strategies.changes.changes import Changes
from muster.strategies.claims import plans
from muster.strategies.documents import findings, paths
from muster.strategies.jobs.jobs import Job
from muster.strategies.platform.profiles import Profile
from muster.strategies.platform.supplies import Supply
from tests.roles import drawn, places
from tests.support import admissions, jobs, limits, reapplies, upstream

PROFILES = {
    "session": Profile("session", "gpu.example.com", sharing="shared", max_sessions=4, claims=2, memory="16Gi"),
    "bare": Profile("bare", "gpu.example.com", replaces="nvidia.com/gpu"),
}
POLICY = structs.replace(places.policy(profile="session"), profiles=PROFILES)


def mutated(document):
    decision = admissions.decide(document, places.CLASS, policy=POLICY)
    assert decision.verdict in {"patched", "unchanged"}, decision.message
    return decision


@limits.MANY
@given(drawn.jobsets())
def test_a_second_pass_adds_nothing(document):
    once = mutated(document).document
    assert [change.operation for change in mutated(once).changes] == []


@limits.MANY
@given(drawn.jobsets())
def test_the_patch_makes_what_the_decision_says(document):
    before = copy.deepcopy(document)
    response = admissions.respond(document, places.CLASS, policy=POLICY)
    assert admissions.patched(document, response) == mutated(document).document
    assert document == before


def terms_of(pod):
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(places.REQUIRED) or {}
    return required.get("nodeSelectorTerms") or []


def is_within(own, now):
    """Whether all that was there is there still: members as they were or more, lists with the same beginning."""
    if isinstance(own, dict) and isinstance(now, dict):
        return all(key in now and is_within(value, now[key]) for key, value in own.items())
    if isinstance(own, list) and isinstance(now, list):
        return len(own) <= len(now) and all(is_within(one, other) for one, other in zip(own, now, strict=False))
    return own is None or own == now


@limits.MANY
@given(drawn.jobsets())
def test_all_that_the_user_wrote_about_placement_is_still_there(document):
    after = mutated(document).document
    for index in range(len(document["spec"]["replicatedJobs"])):
        own, now = (places.pod_of(each, index)["spec"] for each in (document, after))
        for member in ("affinity", "tolerations", "topologySpreadConstraints", "nodeSelector"):
            assert is_within(own.get(member), now.get(member)), member
        assert len(terms_of(own)) in (0, len(terms_of(now)))
        memory = paths.lookup(own, ("containers", 0, "resources", "requests", "memory"))
        assert memory in (paths.ABSENT, paths.lookup(now, ("containers", 0, "resources", "requests", "memory")))


def matches(terms, labels):
    """Whether a node of these labels is let through, by the words of the API: terms are ORed, expressions ANDed."""
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(meets(each, labels.get(each["key"])) for each in term.get("matchExpressions") or ())
        for term in terms
    )


def meets(expression, value):
    values = expression.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


nodes = st.fixed_dictionaries(
    {}, optional={"pool": st.sampled_from(drawn.VALUES), "zone": st.sampled_from(drawn.VALUES)}
)


@limits.MANY
@given(drawn.jobsets(), st.lists(nodes, min_size=1, max_size=6))
def test_pods_go_exactly_where_both_the_user_and_the_role_let_them(document, labels):
    after = mutated(document).document
    for index in range(len(document["spec"]["replicatedJobs"])):
        own, now = (places.pod_of(each, index) for each in (document, after))
        role = places.ROLES.get(((now.get("metadata") or {}).get("labels") or {}).get(places.ROLE))
        theirs, ours = terms_of(own["spec"]), terms_of(now["spec"])
        for each in labels:
            allowed = (not theirs or matches(theirs, each)) and (
                role is None or all(each.get(key) in values for key, values in role.node_labels.items())
            )
            assert (not ours or bool(matches(ours, each))) == allowed


@limits.MANY
@given(drawn.jobsets(), nodes)
def test_a_contradiction_is_found_only_where_no_node_of_the_role_could_match(document, labels):
    decision = admissions.decide(document, places.CLASS, policy=POLICY, phase="validate")
    wrong = {found.field for found in findings.errors(decision.findings) if found.rule == "roles/node-affinity"}
    after = mutated(document).document
    for index, job in enumerate(document["spec"]["replicatedJobs"]):
        pod = places.pod_of(after, index)["spec"]
        selector, terms = pod.get("nodeSelector") or {}, terms_of(pod)
        scheduled = all(labels.get(key) == value for key, value in selector.items()) and matches(terms, labels)
        if scheduled:
            assert not [field for field in wrong if field.startswith(f"spec.replicatedJobs[{job['name']}]")]


def both(document, *, claims_first):
    changes = Changes(document)
    job = Job("JobSet", changes, jobs.NAMESPACE, supply=Supply(profiles=PROFILES), roles=POLICY.roles)
    steps = [lambda: plans.enforce(job, changes, "test"), lambda: roles.enforce(job, changes)]
    for step in steps if claims_first else steps[::-1]:
        step()
    return changes


@limits.MANY
@given(drawn.jobsets())
def test_it_does_not_matter_whether_claims_or_roles_are_added_first(document):
    one, other = (both(document, claims_first=first) for first in (True, False))
    assert one.document == other.document
    assert one.units() == other.units()


@limits.SOME
@given(drawn.jobsets(), st.sampled_from(sorted(reapplies.WAYS)))
def test_sending_the_file_again_gives_what_is_stored(document, way):
    stored = mutated(document).document
    again = reapplies.WAYS[way](stored, document)
    assert not upstream.refuse_jobset(stored, reapplies.updated(stored, again))


@limits.SOME
@given(drawn.jobsets())
def test_no_finding_comes_from_musters_own_placement(document):
    before = admissions.decide(document, places.CLASS, policy=POLICY, phase="validate").findings
    after = admissions.decide(mutated(document).document, places.CLASS, policy=POLICY, phase="validate").findings
    known = {(found.severity, found.rule) for found in before}
    assert {(found.severity, found.rule) for found in after if found.rule.startswith("roles/")} <= known


@limits.SOME
@given(drawn.jobsets())
def test_every_change_names_its_rule_and_a_reason_of_one_line(document):
    for change in mutated(document).changes:
        assert "/" in change.rule
        assert len(change.reason) > 15
        assert "\n" not in change.reason
