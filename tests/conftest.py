"""What no test may depend on: the terminal of whoever runs it, and how fast the machine is."""

import pytest
from hypothesis import settings

settings.register_profile("muster", deadline=None)
settings.load_profile("muster")


@pytest.fixture(autouse=True)
def _columns(monkeypatch):
    # pytest-xdist's workers have a terminal of 80 columns.
    monkeypatch.setenv("COLUMNS", "120")
