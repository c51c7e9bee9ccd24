"""Lives: one job led from step to step, and asked after each one whether anything went wrong.

The steps are those of a queue: wait, be looked at, run, be preempted, run again, go. After each of them all objects
must agree, no controller may have been refused, and what the job is made of must be what it was.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from typing import Any

from e2e.suites.lifecycle import scenes
from e2e.suites.lifecycle.scenes import Scene
from e2e.suites.support import waits
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Outcome
from e2e.suites.support.spaces import TRAINJOBS, Space

__all__ = ["APPLIED", "TOO_EARLY", "Life", "edit", "frozen", "patch_runtime", "submit"]

APPLIED = "muster.dev/applied"
_POKE = "e2e.muster.dev/poke"
TOO_EARLY = "must be created before the TrainJob is created"
_CONFLICT = "the object has been modified"
_ACTIVE = "is still active"
_QUIET = 2.0  # seconds; Trainer applies at each change of the JobSet's status
_MUTABLE = ("nodeSelector", "tolerations", "schedulingGates")


class Life:
    """A job in a namespace, from the moment its JobSet and Jobs are there.

    Args:
        space: the namespace of the job.
        name: the name of the job.
        installation: Muster, whose audit log shows that Trainer applied again; without it, pokes are not waited for.
        runs: whether its pods can run on the nodes there are; if not, `resume` waits for pods only.

    Attributes:
        trainer: `spec.trainer` as it was stored first.
        made: what no update may change of the JobSet, as it was stored first.
    """

    def __init__(self, space: Space, name: str, installation: Installation | None = None, *, runs: bool = True) -> None:
        self.space, self.name = space, name
        self._up = "running" if runs else "released"
        scene = waits.until(f"the JobSet and Jobs of {space.name}/{name}", self._complete)
        assert scene.jobset is not None
        self.trainer = copy.deepcopy(((scene.trainjob or {}).get("spec") or {}).get("trainer"))
        self.made = frozen(scene.jobset)
        # Muster is asked about updates only of what it changed, so it has no record of others.
        self._installation = installation if self.made["applied"] else None

    def wait(self, state: str, seconds: float = 60) -> Scene:
        """Wait until all agree about a state, and check that all is well."""
        return self.check(scenes.wait(self.space, self.name, state, seconds))

    def poke(self, times: int = 3) -> Scene:
        """Make Trainer look at a suspended job again, and wait until it has applied the JobSet each time."""
        for turn in range(times):
            before = self._applies()
            where = ("labels", "annotations")[turn % 2]
            self._patch({"metadata": {where: {_POKE: f"{turn}-{before}"}}})
            if self._installation is not None:
                self._wait_applied(before)
        return self.wait("suspended")

    def settle(self) -> None:
        """Wait until Trainer applies no more; what it applies while Muster is away is refused."""
        before, since = self._applies(), time.monotonic()

        def is_quiet() -> bool:
            nonlocal before, since
            if (now := self._applies()) != before:
                before, since = now, time.monotonic()
            return time.monotonic() - since > _QUIET

        waits.until(f"Trainer to leave {self.space.name}/{self.name} alone", is_quiet)

    def suspend(self) -> Scene:
        """Suspend, and wait until its pods are gone."""
        self._patch({"spec": {"suspend": True}})
        return self.wait("suspended")

    def resume(self) -> Scene:
        """Resume, and wait until its pods are ready."""
        self._patch({"spec": {"suspend": False}})
        return self.wait(self._up)

    def turn(self) -> None:
        """Lead a suspended job as a queue does: three looks, in, out, in."""
        self.wait("suspended")
        self.poke()
        self.resume()
        self.suspend()
        self.resume()

    def delete(self) -> None:
        """Delete the TrainJob, and wait until nothing is left of it."""
        self.space.delete(TRAINJOBS, self.name).expect()
        scenes.wait(self.space, self.name, "gone")

    def check(self, scene: Scene | None = None) -> Scene:
        """Check that no controller was refused, and that the job's parts have not changed."""
        scene = scene or scenes.look(self.space, self.name)
        assert scene.denials == []
        assert scene.jobset is not None
        assert frozen(scene.jobset) == self.made
        assert ((scene.trainjob or {}).get("spec") or {}).get("trainer") == self.trainer
        return scene

    def _complete(self) -> Scene:
        scene = scenes.look(self.space, self.name)
        assert scene.jobset, str(scene)
        assert scene.jobs, str(scene)
        return scene

    def _patch(self, body: Mapping[str, Any]) -> None:
        self.space.patch(TRAINJOBS, self.name, body).expect()

    def _wait_applied(self, before: int) -> None:
        waits.until(f"Trainer to apply JobSet {self.space.name}/{self.name}", lambda: self._applies() > before)

    def _applies(self) -> int:
        """Return how often an update of the JobSet was admitted; an apply that changes nothing is admitted too."""
        if self._installation is None:
            return 0
        wanted = {"operation": "UPDATE", "phase": "mutate"}
        records = self._installation.audit(self.space.name)
        ours = [each for each in records if (each["object"]["kind"], each["object"]["name"]) == ("JobSet", self.name)]
        return sum(wanted.items() <= each.items() for each in ours)


def submit(
    space: Space, runtime: Mapping[str, Any], job: Mapping[str, Any], send: Callable[..., Outcome] = Space.apply
) -> Outcome:
    """Store a runtime and a job of it.

    Trainer's webhook knows runtimes from a cache and refuses a job that comes too soon after its runtime; so one that
    is refused for that is sent again, as a person would.
    """
    space.apply(runtime).expect()

    return edit("the job", lambda: send(space, job), early=TOO_EARLY).expect()


def edit(what: str, send: Callable[[], Outcome], *, early: str = _CONFLICT) -> Outcome:
    """Send an edit again while it is refused only because a controller wrote in between or lags behind.

    Args:
        what: what is edited; the error names it.
        send: reads, if it has to, and writes.
        early: words of such a refusal.
    """

    def once() -> Outcome:
        outcome = send()
        assert early not in outcome.err, outcome
        return outcome

    return waits.until(f"{what} to be edited without a controller in between", once)


def patch_runtime(space: Space, name: str, spec: Mapping[str, Any]) -> None:
    """Change `runtimePatches` of a TrainJob, which Trainer refuses as long as it counts active Jobs."""
    edit(name, lambda: space.patch(TRAINJOBS, name, {"spec": spec}), early=_ACTIVE).expect()


def frozen(jobset: Mapping[str, Any]) -> dict[str, Any]:
    """Return what no update may change: the memory of Muster, and the jobs less what a queue may write."""
    jobs = copy.deepcopy(jobset["spec"]["replicatedJobs"])
    for job in jobs:
        pod = job["template"]["spec"]["template"]
        pod.pop("metadata", None)
        for member in _MUTABLE:
            pod["spec"].pop(member, None)
    return {"applied": (jobset["metadata"].get("annotations") or {}).get(APPLIED), "jobs": jobs}
