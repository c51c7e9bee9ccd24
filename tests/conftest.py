"""What no test may depend on: the terminal of whoever runs it, and how fast the machine is.

And what every test shows: that the rule of each finding and of each change is in the catalogue.
"""

import pytest
from hypothesis import settings

from tests.support import rules

settings.register_profile("muster", deadline=None)
settings.load_profile("muster")
rules.watch()


@pytest.fixture(autouse=True)
def _columns(monkeypatch):
    # pytest-xdist's workers have a terminal of 80 columns.
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(autouse=True)
def _explained():
    yield
    strangers = rules.strangers()
    assert not strangers, f"add these to the rules.toml of their room: {', '.join(strangers)}"
