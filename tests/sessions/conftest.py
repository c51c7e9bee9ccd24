from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path

import pytest

from tests.sessions import databases
from tests.sessions.gateways import Gateway
from tests.support import examples

ROOT = Path(__file__).parents[2]
IS_THERE = importlib.util.find_spec("tinker") is not None
# They run in an environment of their own (`make sessions`), which has torch and the client.
if not IS_THERE:
    collect_ignore_glob = ["*"]
else:
    os.environ |= {"HF_HUB_OFFLINE": "1", "TINKER_TELEMETRY": "0", "OMP_NUM_THREADS": "1"}
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

    import torch
    from hypothesis import HealthCheck, settings

    torch.set_num_threads(1)
    settings.register_profile(
        "sessions", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("sessions")
    examples.forget_sources()


def pytest_configure(config):
    """The client closes the sockets of its pools when the collector finds them, and Python warns of each."""
    if not IS_THERE:
        return
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
    config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")
    # The client of an earlier test waits with jitter in a thread of its own, while Hypothesis watches the generator.
    drawn = "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
    config.addinivalue_line("filterwarnings", drawn)
    # Those lines are for tests; pytest collects once more after the last one.
    warnings.simplefilter("ignore", pytest.PytestUnraisableExceptionWarning)
    warnings.filterwarnings("ignore", "unclosed", ResourceWarning)


@pytest.fixture(scope="session")
def database():
    """Debian's PostgreSQL server."""
    if not databases.IS_THERE:
        pytest.skip("there is no PostgreSQL server here: apt-get install postgresql")
    server = databases.Server()
    yield server
    server.end()


@pytest.fixture(scope="session")
def place(request):
    """Return where a journal is, by its kind: None for SQLite, a URL for PostgreSQL."""
    return lambda kind: request.getfixturevalue("database").url() if kind == "postgresql" else None


@pytest.fixture
def gateway(tmp_path, place, request):
    with Gateway(tmp_path, place(getattr(request, "param", "sqlite"))) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory, place, request):
    """One Gateway for tests that leave each other alone."""
    with Gateway(tmp_path_factory.mktemp("gateway"), place(getattr(request, "param", "sqlite"))) as made:
        yield made


@pytest.fixture
def hand():
    """Make hands, each with a session of its own."""
    from tests.sessions.hand import Hand  # noqa: PLC0415  # the client is there only where these tests run

    made = []

    def make(gateway, key=None):
        made.append(Hand(gateway, key))
        return made[-1]

    yield make
    for each in made:
        each.http.close()
