"""Stories: one example, applied to the cluster, with all that the comparisons look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from e2e.suites.differential import comparisons
from e2e.suites.differential.examples import Example
from e2e.suites.differential.offline import Offline
from e2e.suites.lifecycle import lives
from e2e.suites.support import spaces, waits
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl, Outcome
from e2e.suites.support.spaces import Space

__all__ = ["Story", "tell"]

Document = dict[str, Any]

_APPLIED = "muster.dev/applied"
_RUNTIMES = "trainingruntimes.trainer.kubeflow.org,clustertrainingruntimes.trainer.kubeflow.org"
_NO_PODS = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-pods"},
    "spec": {"hard": {"pods": "0"}},
}


@dataclass(frozen=True)
class Story:
    """An example in the cluster.

    No pod is made from it: an example's image may be any image, and only the stored objects are compared.

    Attributes:
        example: the example.
        space: its namespace.
        twin: a namespace in which Muster is off.
        installation: Muster.
        folder: a folder for the files of the offline side.
        outcome: what kubectl said when the job was applied.
        name: the name of the job, generated or not.
    """

    example: Example
    space: Space
    twin: Space
    installation: Installation
    folder: Path
    outcome: Outcome
    name: str

    @cached_property
    def stored(self) -> Document:
        """The job as the cluster has it."""
        kind = f"{self.example.kind.lower()}s"
        found = self.space.get(kind, self.name)
        assert found is not None, f"the cluster has no {kind}/{self.name}; kubectl said:\n{self.outcome}"
        return found

    @cached_property
    def jobset(self) -> Document:
        """The JobSet that Trainer made of it, as the cluster has it."""
        return self.space.wait_jobset(self.name)

    @cached_property
    def untouched(self) -> Document:
        """The JobSet as Trainer made it, before Muster saw it.

        A TrainJob of the same name and spec is created where Muster is off. Trainer makes the same JobSet of it, which
        then gets the owner of the first one.
        """
        metadata = {**comparisons.without_bookkeeping(self.stored)["metadata"], "name": self.name}
        kept = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != _APPLIED}
        job = {**self.stored, "metadata": {**metadata, "annotations": kept}}
        job.pop("status", None)
        if self.example.others:
            self.twin.create(*self.example.others).expect()
        _sent(lambda: self.twin.create(job)).expect()
        found = comparisons.without_bookkeeping(self.twin.wait_jobset(self.name))
        assert _APPLIED not in str(found), "Muster was to be off in the twin's namespace"
        found["metadata"]["ownerReferences"] = self.jobset["metadata"]["ownerReferences"]
        return found

    @cached_property
    def before(self) -> Offline:
        """`muster`, knowing what the cluster holds when the job arrives."""
        kubectl = self.space.kubectl
        namespace = kubectl.get("namespace", self.space.name)
        assert namespace is not None
        held = [each for kind in (_RUNTIMES, "resourceclaimtemplates") for each in self.space.all(kind)]
        return Offline(self.folder, self.space.name, [namespace, *held])

    @cached_property
    def after(self) -> Offline:
        """`muster`, knowing what the cluster holds when the JobSet arrives."""
        assert self.jobset  # Trainer freezes the runtime first
        frozen = self.space.get("configmap", f"{self.name}-runtime-snapshot")
        assert frozen is not None, "Trainer has frozen no runtime"
        return Offline(self.folder, self.space.name, [*self.before.known, self.stored, frozen])

    @cached_property
    def foretold(self) -> list[Document]:
        """What `explain` says of the TrainJob, and of the JobSet to come; with the name that was generated since."""
        text = json.dumps(self.before.explain(self.example.job))
        generated = self.example.job["metadata"].get("generateName")
        told: list[Document] = json.loads(text.replace(f"{generated}xxxxx", self.name) if generated else text)
        return told

    @cached_property
    def seen(self) -> Document:
        """What `explain` says of the JobSet that Trainer made."""
        (told,) = self.after.explain(self.untouched)
        return told

    def record(self, kind: str, phase: str) -> Document:
        """Return the audit record of the creation of the TrainJob or JobSet."""

        def look() -> Document | None:
            found = [
                record
                for record in self.installation.audit(self.space.name)
                if (record["object"]["kind"], record["phase"], record["operation"]) == (kind, phase, "CREATE")
            ]
            return found[0] if found else None

        found = waits.until(f"the record of {phase} of {kind} {self.space.name}/{self.name}", look, 10)
        assert found is not None
        return found


def _sent(send: Callable[[], Outcome]) -> Outcome:
    """Send a job, again if need be: Trainer's webhook knows runtimes from a cache, a moment after they are stored."""
    return lives.edit("the job", send, early=lives.TOO_EARLY)


@contextmanager
def tell(example: Example, kubectl: Kubectl, installation: Installation, folder: Path) -> Iterator[Story]:
    """Apply an example in a namespace of its own; the namespaces go at the end."""
    space, twin = (Space(spaces.named(f"{prefix}-{example.id}"), kubectl) for prefix in ("as", "twin"))
    try:
        for each in (space.make(), twin.make("off")):
            each.create(_NO_PODS).expect()
        if example.others:
            space.apply(*example.others).expect()
        generated = "name" not in example.job["metadata"]
        named = ("-o", "name")
        outcome = _sent(lambda: space.create(example.job, options=named) if generated else space.apply(example.job))
        name = outcome.out.strip().rpartition("/")[2] if generated else example.job["metadata"]["name"]
        yield Story(example, space, twin, installation, folder, outcome, name)
    finally:
        space.remove()
        twin.remove()
