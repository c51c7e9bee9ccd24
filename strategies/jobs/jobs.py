"""The job as a strategy sees it: the document, what governs it, and what the platform chose for its framework.

A `Job` is all that a strategy may read. It holds no client and does no I/O; a strategy does not know what fills it (the
server's caches, files for the CLI, a test).

Memories: what is found out about a job is found once for each state of its document.

A decision asks for the container, the launch and the topology of a job some hundred times. Of functions, `once` is for
what a view of a job tells, `once_for_all` for what is the same in all its views, and `once_for_part` for what one part
alone decides, which the changes of the other parts leave as it is. A `Fact` is a property that a view keeps in its own
`__dict__`, so that asking for it again calls nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeVar, TypeVarTuple, cast

from msgspec import Struct, field, structs

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import decoding, model, names, pods, trainjobs
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs import askings, containers, parts
from muster.strategies.jobs.parts import Parts
from muster.strategies.platform.placements import Role
from muster.strategies.platform.supplies import NOTHING, Supply
from muster.strategies.trainer import resources, runtime_patches

__all__ = [
    "MOST_TOGETHER",
    "Fact",
    "Job",
    "Kind",
    "Rendezvous",
    "Settings",
    "SharedFact",
    "once",
    "once_for_all",
    "once_for_part",
]


class _Subject(Protocol):
    """A job, or the view of one of its parts: the part, and the changes, whose `known` each change empties."""

    @property
    def changes(self) -> Changes: ...

    @property
    def part(self) -> int: ...

    @property
    def state(self) -> tuple[int, int]: ...

    @property
    def memory(self) -> dict[Any, tuple[Any, ...]]: ...


_Job = TypeVar("_Job", bound=_Subject)
_Found = TypeVar("_Found")
_More = TypeVarTuple("_More")


def once(find: Callable[[_Job], _Found]) -> Callable[[_Job], _Found]:
    """Compute once for each state of a job; what is returned depends on the job alone, and nobody may change it."""

    @functools.wraps(find)
    def look(job: _Job) -> Any:
        try:
            return job.changes.known[find, job.part]
        except KeyError:
            pass
        found = job.changes.known[find, job.part] = find(job)
        return found

    return look


def once_for_all(find: Callable[[_Job], _Found]) -> Callable[[_Job], _Found]:
    """Do the same for what is the same for all parts of a job."""

    @functools.wraps(find)
    def look(job: _Job) -> Any:
        try:
            return job.changes.known[find]
        except KeyError:
            pass
        found = job.changes.known[find] = find(job)
        return found

    return look


def once_for_part(find: Callable[[_Job, *_More], _Found]) -> Callable[[_Job, *_More], _Found]:
    """Compute once for each state of a part; what is returned depends on the part and the further values alone."""

    @functools.wraps(find)
    def look(job: _Job, *more: *_More) -> Any:
        key, known = (find, job.part, more), job.changes.known
        try:
            return known[key]
        except KeyError:
            state = job.state
        kept = job.memory.get(key)
        if kept is None or kept[0] != state:
            kept = job.memory[key] = (state, find(job, *more))
        known[key] = kept[1]
        return kept[1]

    return look


class Fact(Generic[_Found]):
    """A property of a job, found once for each state of it; a `SharedFact` is the same in all views."""

    _of_view = True

    def __init__(self, find: Callable[[Any], _Found]) -> None:
        self._find, self.__doc__ = find, find.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, job: Any, _owner: type | None = None) -> _Found:
        """Find it for a view that has not kept it, or whose job has changed since."""
        known, kept = job.changes.known, job.__dict__
        key = (self, job.part) if self._of_view else self
        if key not in known:
            known[key] = self._find(job)
        if not kept:
            job.changes.keepers.append(kept)
        kept[self._name] = known[key]
        return cast("_Found", known[key])


class SharedFact(Fact[_Found]):
    """A property that is found once for all views of a job."""

    _of_view = False


MOST_TOGETHER = 32
"""Replicated jobs whose ranks meet that Muster changes and checks; what is found about each depends on all others."""
Kind = Literal["TrainJob", "JobSet"]
Rendezvous = Literal["static", "c10d"]


class Settings(Struct, frozen=True):
    """What the configuration file says for one framework.

    Attributes:
        rendezvous: default kind of rendezvous; a job's annotation wins over it.
        profile: name of the claim profile of a job that asks for none; None leaves its devices as they are.
    """

    rendezvous: Rendezvous = "static"
    profile: str | None = None


class Job(Struct, frozen=True, eq=False, dict=True):
    """One TrainJob or JobSet under admission.

    Attributes:
        kind: which of the two.
        changes: the recorded changes; its `document` is the incoming object with the changes so far.
        namespace: namespace of the request, also when the document holds none.
        runtime: the runtime that governs the job, with the patches of a TrainJob merged in; None when there is none.
        owner: the TrainJob that controls a JobSet, None for any other.
        claim_devices: devices per ResourceClaimTemplate of this namespace that the job's pods use, None if unknown.
        settings: the configuration of the job's framework.
        supply: what the job can claim.
        roles: roles that the platform places, by name; empty where it places none.
        runtime_open: whether `runtime` is None because it was not given, not because it does not exist.
        identify: tells what a command line starts, so that the training is found among other parts of a JobSet.
        part: the part that `container` is; of one that trains with others there is a view for each (`views`).
        memory: what was found out about a part, by what found it; see `once_for_part`.
    """

    kind: Kind
    changes: Changes
    namespace: str = ""
    runtime: Runtime | None = None
    owner: Mapping[str, Any] | None = None
    claim_devices: Mapping[str, int | None] = field(default_factory=dict)
    settings: Settings = Settings()
    supply: Supply = NOTHING
    roles: Mapping[str, Role] = field(default_factory=dict)
    runtime_open: bool = False
    identify: containers.Identify = containers.unknown
    part: int = 0
    memory: dict[Any, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Merge the patches of a TrainJob into its runtime, so that nothing reads the one without the other."""
        if self.kind == "TrainJob" and self.runtime is not None:
            structs.force_setattr(self, "runtime", runtime_patches.apply(self.runtime, self.document))

    @property
    def document(self) -> Mapping[str, Any]:
        """The raw document as it stands now."""
        return self.changes.document

    @property
    def name(self) -> str | None:
        """`metadata.name`; None where the API server will still generate it from `generateName`."""
        return self.metadata.name or None

    @SharedFact
    def metadata(self) -> model.ObjectMeta:
        """`metadata` of the job."""
        return decoding.read(self.document.get("metadata") or {}, model.ObjectMeta)

    @SharedFact
    def trainer(self) -> model.Trainer:
        """`spec.trainer` of the TrainJob, or of the TrainJob that owns the JobSet; empty when missing.

        Its process count may be that of a runtime for an older Trainer.
        """
        return resources.effective(self.trainjob.spec.trainer if self.trainjob else model.Trainer(), self.runtime)

    @SharedFact
    def trainjob(self) -> model.TrainJob | None:
        """The TrainJob, or the one that controls the JobSet; None for a JobSet of an author."""
        return decoding.read(self.document, model.TrainJob) if self.kind == "TrainJob" else self.owning

    @SharedFact
    def owning(self) -> model.TrainJob | None:
        """The TrainJob that controls a JobSet, None for any other."""
        return None if self.owner is None else decoding.read(self.owner, model.TrainJob)

    @SharedFact
    def jobset(self) -> model.JobSetSpec:
        """The JobSetSpec of the job: its own, or that of its runtime's template; empty when there is none."""
        if self.kind == "JobSet":
            return decoding.read(self.document, model.JobSet).spec
        return self.runtime.value.spec.template.spec if self.runtime else model.JobSetSpec()

    @SharedFact
    def raw_trainer(self) -> Mapping[str, Any]:
        """`trainer` as the documents hold it."""
        document, processes = self.document if self.kind == "TrainJob" else self.owner, self.trainer.num_proc_per_node
        found = trainjobs.trainer(document or {})
        if processes == found.get("numProcPerNode"):
            return found
        others = {member: value for member, value in found.items() if member != "numProcPerNode"}
        return others if processes is None else {**others, "numProcPerNode": processes}

    @Fact
    def container(self) -> pods.Place | None:
        """The training container: of the JobSet itself, or of the runtime of a TrainJob.

        Of several parts of a JobSet it is that of this view, and without one the first, which has rank 0.
        """
        if self.kind == "TrainJob":
            return self.runtime.trainer if self.runtime else None
        if not self.parts.places:
            return None
        return (
            self._every[self.part] if self.parts.together else pods.place(self.document, *self.parts.places[self.part])
        )

    @property
    def is_untold(self) -> bool:
        """Whether neither Trainer nor Muster sets PET_* and MASTER_ADDR for the launch."""
        return self.is_untouched or (self.kind == "TrainJob" and self.runtime is not None and not self.runtime.is_torch)

    @property
    def is_untouched(self) -> bool:
        """Whether it is a JobSet without a label, which is judged and which Muster will not change."""
        return self.runtime is not None and self.runtime.source == "launch"

    @property
    def brings_image(self) -> bool:
        """Whether the author chose the image: in a JobSet, or in a TrainJob another one than the runtime's.

        Clients send the runtime's own image as well, as kubeflow's SDK 0.5 does with a CustomTrainerContainer.
        """
        image = self.trainer.image
        theirs = self.container.container.image if self.container else ""
        return self.kind == "JobSet" or (bool(image) and image != theirs)

    @Fact
    def world(self) -> tuple[pods.Place, ...]:
        """The training containers whose processes meet, in the order of their ranks; one of each replicated job."""
        container = self.container
        if container is None:
            return ()
        if self.kind == "TrainJob" or not self.parts.together or len(self.parts.places) == 1:
            return (container,)
        return self._every

    @SharedFact
    def _every(self) -> tuple[pods.Place, ...]:
        return tuple(pods.place(self.document, *each) for each in self.parts.places)

    @property
    def parts(self) -> Parts:
        """The parts of a JobSet that do its work, as they were before any change."""
        if _PARTS not in self.memory:
            framework = self.runtime.framework if self.runtime else None
            common = self.common_role[0] if self.common_role else None
            made = parts.find(self.document, framework, self.identify, self._find_asked, common)
            self.memory[_PARTS] = (made,)
        found: Parts = self.memory[_PARTS][0]
        return found

    @property
    def state(self) -> tuple[int, int]:
        """What changes with each change of this part, and of what is outside of all parts."""
        places = self.parts.places if self.kind == "JobSet" else ()
        return self.changes.state(places[self.part][0] if places else ())

    @property
    def views(self) -> tuple[Job, ...]:
        """The job once for each of its parts, so that what is done to one container is done to each."""
        if _VIEWS not in self.memory:
            count = len(self.parts.places) if self.kind == "JobSet" else 1
            self.memory[_VIEWS] = tuple(map(self.view, range(count))) if count > 1 else (self,)
        return self.memory[_VIEWS]

    def view(self, part: int) -> Job:
        """Return the job as one of its parts sees it."""
        return structs.replace(self, part=part)

    @property
    def network(self) -> Mapping[str, Any]:
        """The JobSet's `network`, or that of the runtime's template."""
        if self.kind == "JobSet":
            return (self.document.get("spec") or {}).get("network") or {}
        return self.runtime.network if self.runtime else {}

    def _find_asked(self) -> frozenset[str]:
        """Return the containers for which annotations around the replicated jobs ask for claims."""
        theirs = self.owning.metadata.annotations if self.owning else {}
        levels = [theirs, self.runtime.annotations if self.runtime else {}]
        levels.insert(0 if self.owner is None else len(levels), self.metadata.annotations)
        return askings.read(levels) or frozenset()

    @SharedFact
    def common_role(self) -> tuple[str, str, str] | None:
        """The nearest role label outside of the replicated jobs: its value, the object that has it, its field there.

        A JobSet that Trainer made only repeats labels of others, so its own comes last.
        """
        key = names.ROLE_LABEL
        levels = [
            (self.owning.metadata.labels if self.owning else {}, "the TrainJob's label", "TrainJob "),
            (self.runtime.labels if self.runtime else {}, "the runtime's label", "runtime "),
        ]
        levels.insert(0 if self.owner is None else len(levels), (self.metadata.labels, f"the {self.kind}'s label", ""))
        found = ((labels[key], who, f"{at}metadata.labels[{key}]") for labels, who, at in levels if key in labels)
        return next(found, None)

    def annotation(self, key: str) -> tuple[str, str] | None:
        """Return (value, where it is written) of the nearest annotation: the job's, its TrainJob's, its runtime's."""
        for written, where in self._annotations:
            if key in written:
                return written[key], where
        return None

    @SharedFact
    def _annotations(self) -> tuple[tuple[Mapping[str, str], str], ...]:
        """Annotations that there are, and where they are written, nearest first."""
        every = (
            (self.metadata.annotations, f"{self.kind} annotation"),
            (self.owning.metadata.annotations if self.owning else {}, "TrainJob annotation"),
            (self.runtime.annotations if self.runtime else {}, "runtime annotation"),
        )
        return tuple(each for each in every if each[0])


_PARTS, _VIEWS = "parts", "views"
