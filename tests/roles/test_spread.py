"""Samplers of one JobSet are spread, unless the user spreads them already."""

from __future__ import annotations

from tests.roles import places

HOST = "kubernetes.io/hostname"


def constraints_of(document):
    return places.pod_of(document)["spec"].get("topologySpreadConstraints")


def test_the_pods_of_one_jobset_are_counted_whatever_its_name_will_be():
    jobset = places.make_sampler()
    jobset["metadata"]["generateName"] = jobset["metadata"].pop("name") + "-"
    (constraint,) = constraints_of(places.placed(jobset))
    assert constraint["labelSelector"] == {"matchLabels": {places.ROLE: "sampler"}}
    assert constraint["matchLabelKeys"] == ["jobset.sigs.k8s.io/jobset-name"]
    assert (constraint["topologyKey"], constraint["whenUnsatisfiable"]) == (HOST, "ScheduleAnyway")


def test_what_the_user_says_about_the_same_topology_stands():
    own = {"maxSkew": 2, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    assert constraints_of(places.placed(places.make_sampler(pod={"topologySpreadConstraints": [own]}))) == [own]


def test_what_the_user_says_about_another_topology_stays_beside_it():
    own = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    first, second = constraints_of(places.placed(places.make_sampler(pod={"topologySpreadConstraints": [own]})))
    assert (first, second["topologyKey"]) == (own, HOST)


def test_a_role_without_spread_gets_none():
    assert constraints_of(places.placed(places.make_sampler("trainer"))) is None
