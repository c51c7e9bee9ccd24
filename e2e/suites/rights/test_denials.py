"""Events on denials, by the Muster that is installed: what people see of a job that the API server refused."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.pods import trainings
from e2e.suites.support import documents, metrics
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("installation")

RBAC = REPOSITORY / "manifests" / "overlays" / "production" / "rbac-events.yaml"
ACCOUNT = "system:serviceaccount:muster-system:muster"


@pytest.fixture(scope="module", autouse=True)
def announcing(installation: Installation) -> Iterator[None]:
    """Muster, with Events on denials."""
    with installation.configure({"audit": {"events": True}}):
        yield


@pytest.fixture
def space(space: Space) -> Space:
    """A namespace with a runtime that Trainer knows: of two webhooks that refuse, the API server shows the faster."""
    space.apply(documents.training_runtime("rt", command=["torchrun", "train.py"])).expect()
    trainings.known(space, documents.trainjob("known", "rt")).expect()
    return space


@pytest.fixture
def forbidden(kubectl: Kubectl, space: Space) -> Iterator[None]:
    """Take the right that the controllers have anyway, where their role is installed; skips where others give it."""
    role = kubectl.get("clusterrole", "muster-controllers")
    rules = role["rules"] if role else []
    less = [rule for rule in rules if rule["resources"] != ["events"]]
    if role:
        kubectl.patch("clusterrole", "muster-controllers", None, {"rules": less}).expect()
    try:
        until("the API server to enforce it", lambda: not may_write(kubectl, space), 10)
    except AssertionError:
        pytest.skip(f"{ACCOUNT} may write Events here by roles that this suite does not know")
    else:
        yield
    finally:
        if role:
            kubectl.patch("clusterrole", "muster-controllers", None, {"rules": rules}).expect()


@pytest.fixture
def allow(kubectl: Kubectl, space: Space) -> Iterator[Callable[[], None]]:
    """Give Muster the rights for Events on denials, until the test ends; where they are installed, they stay."""
    rules = list(yaml.safe_load_all(RBAC.read_text()))
    theirs = kubectl.get("clusterrole", rules[0]["metadata"]["name"]) is not None

    def allowed() -> None:
        if not theirs:
            kubectl.apply(*rules).expect()
        until("the API server to grant the rights", lambda: may_write(kubectl, space))

    yield allowed
    for each in () if theirs else rules:
        kubectl.delete(each["kind"].lower(), each["metadata"]["name"]).expect()


def test_a_refused_job_has_an_event_that_counts_and_a_dry_run_has_none(allow: Callable[[], None], space: Space) -> None:
    allow()
    assert apply(space, "dry", dry_run=True).refused_with("numNodes")
    assert apply(space, "bad").refused_with("numNodes")
    (event,) = until("the refusal to have an Event", lambda: events(space, "bad"))
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "MusterDenied", 1)
    assert "spec.trainer.numNodes" in event["message"]
    assert "uid" not in event["involvedObject"]
    assert events(space, "dry") == [], "it came first, and would have had its Event first"

    assert apply(space, "bad").refused_with("numNodes")
    until("the Event to count two", lambda: [each["count"] for each in events(space, "bad")] == [2])


@pytest.mark.thorough
def test_without_the_right_refusals_go_on_and_are_told_once(
    forbidden: None, allow: Callable[[], None], kubectl: Kubectl, installation: Installation, space: Space
) -> None:
    since, before = datetime.datetime.now(datetime.UTC), dropped(kubectl)
    for name in ("one", "two"):
        assert apply(space, name).refused_with("numNodes")
    until("both Events to be given up", lambda: dropped(kubectl) == before + 2)
    lines = [json.loads(line) for line in installation.log(since) if "event on a denial not written" in line]
    assert [line["level"] for line in lines] == ["warning"]
    assert 'cannot create resource "events"' in lines[0]["problem"]
    assert events(space, "one") == events(space, "two") == []
    space.apply(documents.trainjob("good", "rt"), dry_run=True).expect()

    allow()
    assert apply(space, "three").refused_with("numNodes")
    until("the next refusal to have an Event", lambda: events(space, "three"))


def apply(space: Space, name: str, *, dry_run: bool = False) -> Any:
    """Apply a job without nodes."""
    return space.apply(documents.trainjob(name, "rt", trainer={"numNodes": 0}), dry_run=dry_run)


def events(space: Space, name: str) -> list[dict[str, Any]]:
    """Return the Events about a job, as somebody who knows its name asks for them."""
    chosen = ("--field-selector", f"involvedObject.name={name}", "-n", space.name, "-o", "json")
    found: list[dict[str, Any]] = space.kubectl.run("get", "events", *chosen).expect().json["items"]
    return found


def dropped(kubectl: Kubectl) -> float:
    """Return how many denials have found no Event."""
    return metrics.total(metrics.scraped(kubectl), "muster_audit_problems_total", kind="event")


def may_write(kubectl: Kubectl, space: Space) -> bool:
    """Whether Muster may create Events."""
    return kubectl.run("auth", "can-i", "create", "events", "-n", space.name, f"--as={ACCOUNT}").ok
