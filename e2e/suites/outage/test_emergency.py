"""The emergency page does what it says: its commands, word for word, switch Muster off and on again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from e2e.suites.lifecycle import lives
from e2e.suites.outage import jobs, outages
from e2e.suites.outage.pages import Page
from e2e.suites.support import documents
from e2e.suites.support.installations import Installation
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS, Space
from e2e.suites.support.waits import until
from muster.webhook.cli.main import main

TORCH = documents.training_runtime("rt", nodes=2, command=["torchrun", "train.py"])
TRL = documents.training_runtime("trl", "trl", nodes=2, command=["trl", "sft"], args=jobs.TRL_ARGS)
MENDED = ["torchrun", "-m", "trl.scripts.sft"]
CONFIGURATIONS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
BROUGHT = 120.0  # seconds in which the kubelet brings a ConfigMap


def launch(name: str) -> dict[str, object]:
    """A job that Muster would correct."""
    return documents.trainjob(name, "trl", trainer={"command": ["trl", "sft"], "args": jobs.TRL_ARGS})


def wrong(name: str) -> dict[str, object]:
    """A job that Muster would refuse."""
    return documents.trainjob(name, "rt", trainer={"numNodes": 0})


def command(space: Space, name: str) -> list[str]:
    found = space.trainjob(name)
    assert found is not None
    return list(found["spec"]["trainer"]["command"])


def lets_pass(space: Space) -> bool:
    return space.apply(wrong("probe"), dry_run=True).ok


def refuses(space: Space) -> bool:
    """Whether Muster refuses the job, with its own message."""
    return space.apply(wrong("probe"), dry_run=True).refused_with("spec.trainer.numNodes")


@pytest.fixture
def page(space: Space, tmp_path: Path) -> Page:
    return Page(space.kubectl, tmp_path, {"NAMESPACE": space.name, "JOB": "before"})


@pytest.fixture
def before(space: Space) -> Space:
    """A namespace with runtimes and a running job that Muster has corrected."""
    space.apply(TORCH).expect()
    lives.submit(space, TRL, launch("before"), partial(Space.apply, server_side=True))
    assert command(space, "before") == MENDED
    jobs.wait_running(space, "before", pods=2)
    return space


@pytest.fixture
def deployment(space: Space) -> None:
    if space.kubectl.get("deployment", "muster", "muster-system") is None:
        pytest.skip("Muster is not a Deployment in this cluster, so it has no ConfigMap and no pods")


def goes_on(space: Space, name: str) -> None:
    """Check that a job is suspended and resumed as always."""
    jobs.suspend(space, name)
    jobs.wait_suspended(space, name)
    jobs.resume(space, name)
    jobs.wait_running(space, name, pods=2)


def test_switch_1_lets_the_jobs_of_one_namespace_pass_and_is_undone(before: Space, page: Page) -> None:
    page.run("Switch 1: one namespace")

    until("jobs to pass", lambda: lets_pass(before), 10)
    jobs.submit(before, TRL, launch("meanwhile"))
    assert command(before, "meanwhile") == ["trl", "sft"]
    goes_on(before, "before")
    before.apply(launch("before"), server_side=True).expect()
    assert command(before, "before") == MENDED, "what Muster replaced was not restored"

    page.run("Undo 1")

    until("jobs to be refused", lambda: refuses(before), 10)
    jobs.submit(before, TRL, launch("after"))
    assert command(before, "after") == MENDED
    assert command(before, "meanwhile") == ["trl", "sft"], "a job that exists was changed"


@pytest.mark.thorough
def test_switch_2_lets_the_jobs_of_everybody_pass_and_is_undone(
    deployment: None, before: Space, page: Page, say: outages.Say
) -> None:
    was = before.kubectl.get("configmap", "muster", "muster-system")
    assert was is not None
    begun = time.monotonic()
    try:
        page.run("Switch 2: the mode of everybody")
        until("jobs to pass", lambda: lets_pass(before), BROUGHT)
        say(f"switch 2 took {time.monotonic() - begun:.0f} s")
        goes_on(before, "before")
    finally:
        page.run("Undo 2")
    until("jobs to be refused", lambda: refuses(before), BROUGHT)

    now = before.kubectl.get("configmap", "muster", "muster-system")
    assert now is not None
    assert now["data"] == was["data"]


@pytest.fixture
def webhooks(space: Space, page: Page) -> Iterator[Callable[[], bool]]:
    """Return whether both webhook configurations exist; put them back if a test failed in between."""

    def present() -> bool:
        return all(space.kubectl.get(kind, "muster") is not None for kind in CONFIGURATIONS)

    yield present
    if not present():
        page.run("Undo 3")


def test_switch_3_lets_all_jobs_pass_while_muster_is_dead_and_is_undone(
    before: Space, muster: Installation, page: Page, webhooks: Callable[[], bool]
) -> None:
    specs = {kind: before.kubectl.get(kind, "muster") for kind in CONFIGURATIONS}
    outages.die(muster)
    assert before.apply(launch("meanwhile")).refused_with('.muster.dev"')

    page.run("Switch 3: the webhooks")

    assert not webhooks()
    until("jobs to pass", lambda: before.apply(launch("meanwhile")).ok, 10)
    assert command(before, "meanwhile") == ["trl", "sft"]
    jobs.wait_running(before, "meanwhile", pods=2)
    goes_on(before, "before")
    assert before.apply(launch("before"), server_side=True).refused_with("immutable")
    before.delete(TRAINJOBS, "meanwhile").expect()
    before.wait_gone(JOBSETS, "meanwhile")

    muster.start()
    page.run("Undo 3")

    assert webhooks()
    until("jobs to be refused", lambda: refuses(before), 30)
    for kind, spec in specs.items():
        again = before.kubectl.get(kind, "muster")
        assert spec is not None
        assert again is not None
        assert again["webhooks"] == spec["webhooks"]
    before.apply(launch("before"), server_side=True).expect()
    jobs.submit(before, TRL, launch("after"))
    assert command(before, "after") == MENDED


@pytest.mark.thorough
def test_what_is_to_be_collected_is_there(deployment: None, before: Space, page: Page) -> None:
    page.run("What to collect")

    assert "Server Version" in page.file("muster-versions.txt")
    assert "deployment.apps/muster" in page.file("muster-objects.txt")
    assert '"message": "serving"' in page.file("muster-log.txt")
    assert "MusterConfig" in page.file("muster-configmap.yaml")
    assert "create.trainjobs.muster.dev" in page.file("muster-webhooks.yaml")
    assert "muster_admission_requests_total" in page.file("muster-metrics.txt")
    assert "kind: JobSet" in page.file("muster-job.yaml")
    collected = "".join(page.file(name.name) for name in page.folder.glob("muster-*"))
    assert "PRIVATE KEY" not in collected


@pytest.mark.thorough
def test_jobs_that_came_in_meanwhile_are_found_afterwards(
    before: Space, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    page.run("Switch 1: one namespace")
    until("jobs to pass", lambda: lets_pass(before), 10)
    jobs.submit(before, TRL, launch("alone"))
    page.run("Undo 1")

    page.run("After it")

    jobs_, runtimes = page.folder / "muster-trainjobs.yaml", page.folder / "muster-runtimes.yaml"
    files = ["-f", str(jobs_), "-f", str(runtimes)]
    assert main(["check", *files]) in (0, 1), "other tests' jobs may be in the cluster"
    capsys.readouterr()
    main(["explain", "-o", "json", *files])
    told = json.loads(capsys.readouterr().out)
    ours = {each["name"]: each for each in told if (each["kind"], each["namespace"]) == ("TrainJob", before.name)}
    assert "trl/launch" in [each["rule"] for each in ours["alone"]["changes"]]
    assert ours["before"]["changes"] == [], "it is right already"
