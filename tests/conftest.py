"""What no test may depend on: the terminal of whoever runs it."""

import pytest


@pytest.fixture(autouse=True)
def _columns(monkeypatch):
    # pytest-xdist's workers have a terminal of 80 columns.
    monkeypatch.setenv("COLUMNS", "120")
