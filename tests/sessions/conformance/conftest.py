from __future__ import annotations

import pytest


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)])
def world(tmp_path_factory, place, request):
    """A Gateway with a tokenizer beside its base, and clients of it, on each kind of journal."""
    from tests.sessions.conformance.worlds import World, tokenizer_in  # noqa: PLC0415  # they need the client
    from tests.sessions.gateways import Gateway  # noqa: PLC0415  # as above

    gateway = Gateway(tmp_path_factory.mktemp("gateway"), place(request.param))
    tokenizer_in(gateway.base)
    with gateway:
        made = World(gateway)
        yield made
        made.close()
