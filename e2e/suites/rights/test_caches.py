"""Role `muster`: what the webhook may read, and what becomes of admissions without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from e2e.suites.rights import accounts, looks, scenes
from e2e.suites.rights.accounts import Account, Right
from e2e.suites.rights.conftest import Begin
from e2e.suites.rights.scenes import Asked, Scene
from e2e.suites.support import metrics, spaces, thorough
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until
from tests.manifests import rights

pytestmark = pytest.mark.xdist_group("rights of the webhook")

FILES = ("rbac.yaml",)
KIND = "trainingruntimes.trainer.kubeflow.org"
NODES = ("muster", "nodes", "watch")


def by(verb: str) -> list[Right]:
    """Return the rights of the role that have this verb."""
    return [right for right in rights.RIGHTS if (right[0], right[2]) == ("muster", verb)]


def some(rights: Iterable[Right]) -> list[Any]:
    """Return parameters: `make test` takes the verbs of one kind away."""
    known = list(rights)
    return thorough.but(next(each for each in known if each[1] == KIND), of=known, called=accounts.called)


@pytest.fixture(scope="module")
def scene(kubectl: Kubectl) -> Iterator[Scene]:
    """What admissions ask for, in a namespace in which nobody writes."""
    space = Space(spaces.named("asked"), kubectl).make()
    made = scenes.made(space)
    yield made
    made.remove()
    space.remove()


@pytest.fixture(scope="module")
def muster(begin: Begin, lent: Account, scene: Scene) -> Spare:
    """A Muster that is ready, whose watches stand."""
    begun = begin(lent, scene.config())
    begun.wait_ready()
    return begun


@pytest.mark.parametrize("right", some(by("list")))
def test_without_a_list_it_never_becomes_ready(right: Right, account: Account, begin_anew: Begin, scene: Scene) -> None:
    account.take(right)
    muster = begin_anew(account, scene.config())
    until("it to be forbidden to list", lambda: looks.is_told(muster, right))
    until("it to say so when it is asked", lambda: f"list, watch on {right[1]}" in muster.problem())

    account.give_back()
    muster.wait_ready(60)


@pytest.mark.parametrize("right", some(each for each in by("watch") if each != NODES))
def test_without_a_watch_it_asks_at_each_admission_again(
    right: Right, account: Account, begin_anew: Begin, scene: Scene
) -> None:
    account.take(right)
    muster = begin_anew(account, scene.config())
    muster.wait_ready()
    asked = scene.asks_for(right[1])
    until("it to ask the API server at an admission", lambda: fetched(muster, asked) == 1)
    assert looks.is_told(muster, right)

    account.give_back()
    until("it to answer from memory", lambda: fetched(muster, asked) == 0, 60)


@pytest.mark.thorough
@pytest.mark.parametrize("right", [NODES], ids=accounts.called)
def test_without_a_watch_it_knows_no_nodes_and_does_not_warn(
    right: Right, account: Account, begin_anew: Begin, scene: Scene
) -> None:
    account.take(right)
    muster = begin_anew(account, scene.config())
    muster.wait_ready()
    until("it to be forbidden to watch", lambda: looks.is_told(muster, right))
    assert warned(muster, scene) == []

    account.give_back()
    until("it to warn of the nodes' taint", lambda: warned(muster, scene), 60)


@pytest.mark.parametrize("right", some(by("get")))
def test_without_a_get_a_job_is_refused_that_needs_what_is_not_in_memory(
    right: Right, account: Account, muster: Spare, scene: Scene
) -> None:
    def told() -> str:
        answer = muster.ask(*scene.asks_for_none(right[1]))
        return "" if answer.allowed else answer.message

    account.take(right)
    words = ("could not be fetched: HTTP 403", f"get, list, watch on {right[1]}")
    until("a job to be refused for that", lambda: all(each in told() for each in words))

    account.give_back()
    until("it to be told that there is none", lambda: "could not be fetched" not in told())


def fetched(muster: Spare, asked: Asked) -> float:
    """Return how many objects Muster fetched, and found, for one admission."""
    before = metrics.total(muster.samples(), "muster_cluster_fetches_total", outcome="found")
    muster.ask(*asked)
    return metrics.total(muster.samples(), "muster_cluster_fetches_total", outcome="found") - before


def warned(muster: Spare, scene: Scene) -> list[str]:
    """Return the warnings about taints of nodes that a job of the role gets."""
    return [each for each in muster.ask(*scene.asks_for_a_node(), phase="validate").warnings if "taints" in each]
