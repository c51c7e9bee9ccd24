from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.cluster.errors import ClusterError
from e2e.cluster.node import networks

_BLOCKS = [IPv4Network(f"10.{second}.0.0/16") for second in range(64, 250)]


@given(st.sampled_from(_BLOCKS))
def test_the_ranges_of_a_cluster_are_in_its_block_and_overlap_nowhere(block):
    network = networks.Network(block)
    link = IPv4Network(f"{network.host}/30", strict=False)
    ranges = [network.pods, network.services, network.fakes, link]

    assert all(each.subnet_of(block) for each in ranges)
    assert not any(one.overlaps(other) for one in ranges for other in ranges if one is not other)
    assert network.node in link
    assert network.gateway in network.pods


@given(st.sets(st.sampled_from(_BLOCKS), max_size=len(_BLOCKS) - 1))
def test_a_chosen_network_overlaps_none_that_is_known(used):
    assert not any(networks.choose(used).block.overlaps(each) for each in used)


def test_a_route_into_a_block_is_enough_to_leave_it_alone():
    part = {IPv4Network((each[300], 30)) for each in _BLOCKS[1:]}

    assert networks.choose(part).block == _BLOCKS[0]


def test_without_a_free_network_the_error_says_so():
    with pytest.raises(ClusterError, match="no free /16 between"):
        networks.choose([IPv4Network("10.0.0.0/8")])


def test_the_machines_own_networks_are_known():
    assert IPv4Network("127.0.0.0/8") in set(networks.taken())
