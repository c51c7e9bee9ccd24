"""Level A: each public method of the client is called against a running Gateway, and its result is asserted."""

from __future__ import annotations

import pytest

from tests.sessions.conformance import checks_service, checks_training  # noqa: F401  # they fill the table
from tests.sessions.conformance.methods import TABLE, is_deprecated, of_the_client
from tests.sessions.conformance.worlds import Call

METHODS = of_the_client()


def test_every_method_of_the_client_has_an_entry():
    assert set(METHODS) == set(TABLE)


def test_what_the_page_of_peers_counts_is_counted_here():
    current = [name for name, method in METHODS.items() if not is_deprecated(method)]
    assert (len(METHODS), len(current)) == (107, 56)


@pytest.mark.parametrize("name", sorted(name for name, each in TABLE.items() if each.check))
def test_a_method_does_what_it_is_for(world, name):
    TABLE[name].check(world, Call(world, name))
