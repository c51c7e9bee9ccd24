"""Random pods as people place them, with a role or without: selectors, terms, tolerations, spreads and requests."""

from __future__ import annotations

import copy

from hypothesis import strategies as st

from tests.roles import places
from tests.support import jobs

VALUES = ("training", "sampling", "both", "cpu", "3")
TOPOLOGIES = ("kubernetes.io/hostname", "zone")

expressions = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(("pool", "zone", "kubernetes.io/arch")),
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique=True),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(("pool", "zone")),
        st.sampled_from(("Exists", "DoesNotExist")),
    ),
)
terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(expressions, max_size=3),
        "matchFields": st.just([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]),
    },
)
pod_terms = st.builds(
    lambda role, key: {"labelSelector": {"matchLabels": {places.ROLE: role}}, "topologyKey": key},
    st.sampled_from(("trainer", "sampler", "x")),
    st.sampled_from(TOPOLOGIES),
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.one_of(
            st.just({}),
            st.builds(lambda every: {places.REQUIRED: {"nodeSelectorTerms": every}}, st.lists(terms, max_size=3)),
        ),
        "podAffinity": st.builds(lambda every: {places.REQUIRED: every}, st.lists(pod_terms, max_size=2)),
        "podAntiAffinity": st.builds(lambda every: {places.REQUIRED: every}, st.lists(pod_terms, max_size=2)),
    },
)
tolerations = st.lists(
    st.sampled_from(
        [places.OPEN, places.TAINTED, {"operator": "Exists"}, {"key": "nvidia.com/gpu", "operator": "Exists"}]
    ),
    max_size=3,
)
spreads = st.lists(
    st.builds(
        lambda key: {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"},
        st.sampled_from(TOPOLOGIES),
    ),
    max_size=2,
    unique_by=lambda each: each["topologyKey"],
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "affinity": affinities | st.none(),
        "tolerations": tolerations | st.none(),
        "topologySpreadConstraints": spreads | st.none(),
        "nodeSelector": st.dictionaries(st.sampled_from(("pool", "zone")), st.sampled_from(VALUES), max_size=2),
    },
)
resources = st.sampled_from(
    (
        None,
        {},
        {"requests": None},
        {"requests": {"memory": "2Gi"}},
        {"limits": {"nvidia.com/gpu": 1}},
        {"limits": {"memory": "4Gi", "nvidia.com/gpu": 1}},
        {"claims": [{"name": "mine"}]},
    )
)
metadata = st.sampled_from(
    (
        None,
        {"labels": {"app": "x"}},
        {"labels": {places.ROLE: "sampler"}},
        {"annotations": {"muster.dev/claim-profile": "session"}},
        {"annotations": {"muster.dev/claim-profile": "gone"}},
        {"labels": None, "annotations": {"muster.dev/claim-profile": "bare"}},
    )
)


@st.composite
def jobsets(draw):
    """A JobSet of one or two replicated jobs."""
    whole = places.make_sampler(draw(st.sampled_from(("sampler", "trainer", "critic", None))), pod=draw(pods))
    if draw(st.booleans()):
        other = places.make_sampler(draw(st.sampled_from(("sampler", "trainer", None))), pod=draw(pods))
        job = {**other["spec"]["replicatedJobs"][0], "name": "second"}
        whole["spec"]["replicatedJobs"].append(job)
    for index in range(len(whole["spec"]["replicatedJobs"])):
        if (found := draw(metadata)) is not None:
            places.pod_of(whole, index)["metadata"] = copy.deepcopy(found)
        if (amounts := draw(resources)) is not None:
            jobs.container_of(whole, index)["resources"] = copy.deepcopy(amounts)
    if (role := draw(st.sampled_from((None, None, "sampler", "trainer")))) is not None:
        whole["metadata"]["labels"] = {places.ROLE: role}
    return whole
