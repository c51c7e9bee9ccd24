"""Pods of two roles share no host."""

from __future__ import annotations

import pytest

from tests.roles import places

FIELD = "spec.replicatedJobs[server].template.spec.template.spec.affinity.podAffinity"


def term_against(role):
    return {
        "labelSelector": {"matchExpressions": [{"key": places.ROLE, "operator": "In", "values": [role]}]},
        "namespaceSelector": {},
        "topologyKey": "kubernetes.io/hostname",
    }


def terms_of(document):
    return places.pod_of(document)["spec"]["affinity"]["podAntiAffinity"][places.REQUIRED]


def test_each_role_keeps_off_the_other_in_every_namespace():
    assert terms_of(places.placed(places.make_sampler("sampler"))) == [term_against("trainer")]
    assert terms_of(places.placed(places.make_sampler("trainer"))) == [term_against("sampler")]


def test_the_users_own_terms_stay_before_it():
    own = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {places.REQUIRED: [own]}}
    assert terms_of(places.placed(places.make_sampler(pod={"affinity": affinity}))) == [own, term_against("trainer")]


def test_a_role_that_is_not_apart_gets_no_term():
    out = places.placed(places.make_sampler(), policy=places.policy(apart=False))
    assert "podAntiAffinity" not in places.pod_of(out)["spec"]["affinity"]


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {places.ROLE: "trainer"}},
        {"matchExpressions": [{"key": places.ROLE, "operator": "In", "values": ["trainer"]}]},
    ],
)
def test_to_ask_for_a_host_of_the_other_role_is_an_error(selector):
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    jobset = places.make_sampler(pod={"affinity": {"podAffinity": {places.REQUIRED: [term]}}})
    assert places.said(jobset) == [("error", f"{FIELD}.{places.REQUIRED}[0]", "roles/anti-affinity")]


def test_a_role_that_is_not_apart_may_ask_for_a_host_of_the_other():
    term = {"labelSelector": {"matchLabels": {places.ROLE: "trainer"}}, "topologyKey": "kubernetes.io/hostname"}
    jobset = places.make_sampler(pod={"affinity": {"podAffinity": {places.REQUIRED: [term]}}})
    assert places.said(jobset, policy=places.policy(apart=False)) == []


def test_company_in_the_zone_or_of_other_pods_is_fine():
    terms = [
        {"labelSelector": {"matchLabels": {places.ROLE: "trainer"}}, "topologyKey": "zone"},
        {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"},
    ]
    assert places.said(places.make_sampler(pod={"affinity": {"podAffinity": {places.REQUIRED: terms}}})) == []
