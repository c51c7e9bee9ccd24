from __future__ import annotations

import pytest

from e2e.cluster import processes
from e2e.cluster.places import Places


@pytest.fixture
def where(tmp_path):
    places = Places(tmp_path / "state")
    places.make()
    yield places
    processes.end_all(places)
