"""Fixtures of the reports: Muster is told to write them before the cluster knows the kind."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.suites.reports.reportings import FORMATS, Reporting
from e2e.suites.support import spaces, thorough
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl, Outcome
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until
from e2e.suites.validation import jobs


@dataclass(frozen=True, slots=True)
class Early:
    """What was while the cluster did not know the kind.

    Attributes:
        space: a namespace with a job of that time.
        outcome: the outcome of that job's `kubectl apply`.
        told: what Muster logged about it.
    """

    space: Space
    outcome: Outcome
    told: list[dict[str, Any]]


@pytest.fixture(scope="session", params=thorough.but("openreports", of=sorted(FORMATS)))
def reporting(request: pytest.FixtureRequest, kubectl: Kubectl, installation: Installation) -> Iterator[Reporting]:
    """Muster reports in one format, has the rights for it, and meets the kind or not."""
    made = Reporting(request.param, kubectl, installation)
    with made.allowed(), installation.configure({"audit": {"reports": made.format}}):
        yield made


@pytest.fixture(scope="session")
def early(reporting: Reporting, kubectl: Kubectl) -> Iterator[Early | None]:
    """A job before the kind is installed, which it is then; None where the cluster has had it."""
    if reporting.is_defined():
        yield None
        return
    space = Space(spaces.named("early"), kubectl).make()
    since = datetime.datetime.now(datetime.UTC)
    outcome = space.apply(jobs.wrong())
    told = until("Muster to say that the kind is missing", lambda: reporting.warnings(since))
    with reporting.defined():
        yield Early(space, outcome, told)
    space.remove()


@pytest.fixture(scope="session")
def reported(reporting: Reporting, early: Early | None) -> Reporting:  # the second installs the kind
    """Muster reports, and the cluster has the kind."""
    return reporting


@pytest.fixture(scope="session")
def told(reported: Reporting, kubectl: Kubectl) -> Iterator[Space]:
    """A namespace whose report tells of a corrected job, one with a warning, and a refused one."""
    space = Space(spaces.named("told"), kubectl).make()
    space.apply(jobs.sft()).expect()
    space.apply(jobs.script()).expect()
    assert not space.apply(jobs.wrong()).ok
    space.wait_jobset("sft")
    reported.wait(space, {"sft": {"pass"}, "script": {"warn"}, "wrong": {"fail"}})
    yield space
    space.remove()
