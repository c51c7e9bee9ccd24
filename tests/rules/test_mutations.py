"""The rules of mutation, as properties of whole decisions over random jobs of every framework."""

from __future__ import annotations

import copy
import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.documents import findings, paths
from tests.support import admissions, generated, jobs, limits, realistic, upstream

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "two-gpus", "namespace": jobs.NAMESPACE},
    "spec": {"spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu", "count": 2}}]}}},
}


def mutated(document, cluster):
    """The document after Muster's webhook, which must agree with its own idea of it."""
    decision = admissions.decide(document, CLAIM, *cluster)
    assert decision.verdict in {"patched", "unchanged"}, decision.message
    out = admissions.patched(document, admissions.respond(document, CLAIM, *cluster))
    assert out == decision.document
    return out


@limits.SOME
@given(realistic.documents())
def test_a_second_pass_changes_nothing(case):
    document, cluster = case
    once = mutated(document, cluster)
    again = admissions.decide(once, CLAIM, *cluster)
    assert [change.operation for change in again.changes] == []
    assert again.verdict == "unchanged"


@limits.SOME
@given(realistic.documents())
def test_the_users_object_is_not_written_to(case):
    document, cluster = case
    before = copy.deepcopy((document, cluster))
    reader = admissions.make_reader(CLAIM, *cluster)
    for phase in ("mutate", "validate"):
        admissions.decide(document, reader=reader, phase=phase)
    assert (document, cluster) == before


@limits.SOME
@given(realistic.documents(), st.data())
def test_members_that_muster_has_never_heard_of_survive(case, data):
    document, cluster = case
    every = list(realistic.objects(document))
    chosen = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True))
    value = data.draw(generated.values())
    for path in chosen:
        paths.lookup(document, path)[realistic.UNKNOWN] = copy.deepcopy(value)
    out = mutated(document, cluster)
    for path in chosen:
        assert paths.lookup(out, (*path, realistic.UNKNOWN)) == value


@limits.SOME
@given(realistic.documents(), st.data())
def test_an_unknown_member_changes_no_decision(case, data):
    document, cluster = case
    plain = [change.rule for change in admissions.decide(document, CLAIM, *cluster).changes]
    path = data.draw(st.sampled_from([path for path in realistic.objects(document) if path]))
    paths.lookup(document, path)[realistic.UNKNOWN] = {"deep": [1]}
    assert [change.rule for change in admissions.decide(document, CLAIM, *cluster).changes] == plain


@limits.SOME
@given(realistic.documents())
def test_the_place_of_muster_among_the_other_webhooks_does_not_matter(case):
    document, cluster = case
    others = (
        [upstream.default_jobset]
        if document["kind"] == "JobSet"
        else [upstream.default_trainjob, upstream.suspend, upstream.start]
    )
    for order in itertools.permutations(others):
        results = []
        for place in range(len(order) + 1):
            out = document
            for step in (*order[:place], lambda d: mutated(d, cluster), *order[place:]):
                out = step(out)
            results.append(out)
        assert all(result == results[0] for result in results)


def place_of(finding):
    """The rule and the field; of a list that Muster wrote, which word it is may be told better afterwards."""
    return finding.rule, re.sub(r"\[\d+\]$", "", finding.field)


@limits.SOME
@given(realistic.documents())
def test_no_error_of_the_validation_comes_from_musters_own_change(case):
    document, cluster = case
    before = admissions.decide(document, CLAIM, *cluster, phase="validate").findings
    out = mutated(document, cluster)
    after = admissions.decide(out, CLAIM, *cluster, phase="validate").findings
    known = {place_of(found) for found in findings.errors(before)}
    touched = {change.field for change in admissions.decide(document, CLAIM, *cluster).changes}
    caused = [found for found in findings.errors(after) if place_of(found) not in known]
    assert [str(found) for found in caused if found.field in touched] == []
    assert [str(found) for found in caused] == []


@limits.SOME
@given(realistic.documents())
def test_every_change_says_which_rule_made_it_and_why(case):
    document, cluster = case
    for change in admissions.decide(document, CLAIM, *cluster).changes:
        framework, _, rule = change.rule.partition("/")
        assert framework
        assert rule
        assert len(change.reason) > 15
        assert "\n" not in change.reason
