"""What no test may depend on: the terminal of whoever runs it, and how fast the machine is.

And what every test shows: that the rule of each finding and of each change is in the catalogue.
"""

import logging

import pytest
from hypothesis import HealthCheck, settings

from tests.support import examples, rules

_ANY_MACHINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("drawn", **_ANY_MACHINE)
# The same examples in each run: `make test` fails for what a change did, not for what was drawn this time.
settings.register_profile("repeatable", **_ANY_MACHINE, derandomize=True)
settings.load_profile("drawn")
rules.watch()


def pytest_configure(config):
    if config.getoption("--hypothesis-profile", None) == "repeatable":
        examples.forget_sources()


@pytest.fixture(autouse=True)
def _columns(monkeypatch):
    # pytest-xdist's workers have a terminal of 80 columns.
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(autouse=True)
def _own_log():
    """Take away what a test hung on the root logger: its stream is closed when the next test logs."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _explained():
    yield
    strangers = rules.strangers()
    assert not strangers, f"add these to the rules.toml of their room: {', '.join(strangers)}"
