"""The job as a strategy sees it: the document, what governs it, and what the platform chose for its framework.

A `Job` is all that a strategy may read. It holds no client and does no I/O; a strategy does not know what fills it (the
server's caches, files for the CLI, a test).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import pods, trainjobs
from muster.strategies.documents.paths import Path
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.jobs import askings, parts, programs
from muster.strategies.jobs.memories import remembered, remembered_for_all
from muster.strategies.jobs.parts import Parts
from muster.strategies.platform.placements import Role
from muster.strategies.platform.supplies import NOTHING, Supply
from muster.strategies.trainer import resources, runtime_patches

__all__ = [
    "MOST_TOGETHER",
    "Job",
    "Kind",
    "Rendezvous",
    "Settings",
    "follow_parts",
    "followed",
    "keep",
    "remembered",
    "remembered_for_all",
    "remembered_for_part",
    "remembered_for_place",
]

MOST_TOGETHER = 32
"""Replicated jobs whose ranks meet that Muster changes and checks; what is found about each depends on all others."""
Kind = Literal["TrainJob", "JobSet"]
Rendezvous = Literal["static", "c10d"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration file says for one framework.

    Attributes:
        rendezvous: default kind of rendezvous; a job's annotation wins over it.
        profile: name of the claim profile of a job that asks for none; None leaves its devices as they are.
    """

    rendezvous: Rendezvous = "static"
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
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
        memory: what was found out about the job, by what found it; see `remembered`.
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
    identify: programs.Identify = programs.unknown
    part: int = 0
    memory: dict[Any, tuple[Any, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Merge the patches of a TrainJob into its runtime, so that nothing reads the one without the other."""
        if self.kind == "TrainJob" and self.runtime is not None:
            object.__setattr__(self, "runtime", runtime_patches.apply(self.runtime, self.document))

    @property
    def document(self) -> Mapping[str, Any]:
        """The raw document as it stands now."""
        return self.changes.document

    @property
    def name(self) -> str | None:
        """`metadata.name`; None where the API server will still generate it from `generateName`."""
        return (self.document.get("metadata") or {}).get("name") or None

    @property
    @remembered_for_all
    def trainer(self) -> trainjobs.Trainer:
        """`spec.trainer` of the TrainJob, or of the TrainJob that owns the JobSet; empty when missing.

        Its process count may be that of a runtime for an older Trainer.
        """
        document = self.document if self.kind == "TrainJob" else self.owner
        return resources.effective(document or {}, self.runtime)

    @property
    @remembered
    def container(self) -> pods.Place | None:
        """The training container: of the JobSet itself, or of the runtime of a TrainJob.

        Of several parts of a JobSet it is that of this view, and without one the first, which has rank 0.
        """
        if self.kind == "TrainJob":
            return self.runtime.trainer if self.runtime else None
        return self._place(self.part) if self.parts.places else None

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
        image = self.trainer.get("image")
        theirs = self.container.container.get("image") if self.container else None
        return self.kind == "JobSet" or (bool(image) and image != theirs)

    @property
    @remembered
    def world(self) -> tuple[pods.Place, ...]:
        """The training containers whose processes meet, in the order of their ranks; one of each replicated job."""
        container = self.container
        if container is None:
            return ()
        if self.kind == "TrainJob" or not self.parts.together or len(self.parts.places) == 1:
            return (container,)
        return follow_parts(self, "world", self._place)

    @property
    def parts(self) -> Parts:
        """The parts of a JobSet that do its work."""
        kept = self.memory.get(_PARTS)
        if kept is None:  # once: changes to the job do not change them
            framework = self.runtime.framework if self.runtime else None
            made = parts.find(self.document, ("spec",), framework, self.identify, self._find_asked)
            kept = self.memory[_PARTS] = (0, made)
        found: Parts = kept[1]
        return found

    @property
    def views(self) -> tuple[Job, ...]:
        """The job once for each of its parts, so that what is done to one container is done to each."""
        count = len(self.parts.places) if self.kind == "JobSet" else 1
        return tuple(map(self.view, range(count))) if count > 1 else (self,)

    def view(self, part: int) -> Job:
        """Return the job as one of its parts sees it."""
        return dataclasses.replace(self, part=part)

    def _place(self, part: int) -> pods.Place:
        """Return the training container of a part; most changes touch other parts, so it is made once for many."""
        found = self.parts.places[part]
        return _still(self, (_PLACE, part), self.changes.state(found[0]), lambda: pods.place(self.document, *found))

    @property
    def network(self) -> Mapping[str, Any]:
        """The JobSet's `network`, or that of the runtime's template."""
        if self.kind == "JobSet":
            return (self.document.get("spec") or {}).get("network") or {}
        return self.runtime.network if self.runtime else {}

    def _find_asked(self) -> frozenset[str]:
        """Return the containers for which annotations around the replicated jobs ask for claims."""
        if _ASKED not in self.memory:  # once: changes to the job do not change it
            own, theirs = ((each or {}).get("metadata") or {} for each in (self.document, self.owner))
            levels = [theirs.get("annotations") or {}, self.runtime.annotations if self.runtime else {}]
            levels.insert(0 if self.owner is None else len(levels), own.get("annotations") or {})
            self.memory[_ASKED] = (0, askings.read(levels) or frozenset())
        found: frozenset[str] = self.memory[_ASKED][1]
        return found

    def annotation(self, key: str) -> tuple[str, str] | None:
        """Return (value, where it is written) of the nearest annotation: the job's, its TrainJob's, its runtime's."""
        for written, where in self._annotations:
            value = written.get(key)
            if isinstance(value, str):
                return value, where
        return None

    @property
    @remembered_for_all
    def _annotations(self) -> tuple[tuple[Mapping[str, Any], str], ...]:
        """Annotations that there are, and where they are written, nearest first."""
        own, owners = ((each or {}).get("metadata") or {} for each in (self.document, self.owner))
        every = (
            (own.get("annotations") or {}, f"{self.kind} annotation"),
            (owners.get("annotations") or {}, "TrainJob annotation"),
            (self.runtime.annotations if self.runtime else {}, "runtime annotation"),
        )
        return tuple(each for each in every if each[0])


_PARTS, _PLACE, _ASKED = "parts", "place", "asked"
_Found = TypeVar("_Found")


def remembered_for_part(find: Callable[[Job], _Found]) -> Callable[[Job], _Found]:
    """Compute once for each state of this part of a job and of what is outside of all parts, not of the others."""

    @functools.wraps(find)
    def look(job: Job) -> Any:
        try:
            return job.changes.known[find, job.part]
        except KeyError:
            pass
        places = job.parts.places if job.kind == "JobSet" else ()
        state = job.changes.state(places[job.part][0]) if places else job.changes.count
        found = job.changes.known[find, job.part] = _still(job, (find, job.part), state, lambda: find(job))
        return found

    return look


def remembered_for_place(find: Callable[[Job, pods.Place], _Found]) -> Callable[[Job, pods.Place], _Found]:
    """Compute once for each state of one replicated job; what is returned depends on its container alone."""

    @functools.wraps(find)
    def look(job: Job, place: pods.Place) -> Any:
        key = find, place.path
        try:
            return job.changes.known[key]
        except KeyError:
            pass
        state = job.changes.state(place.path)
        found = job.changes.known[key] = _still(job, key, state, lambda: find(job, place))
        return found

    return look


def _still(job: Job, key: object, state: object, find: Callable[[], _Found]) -> _Found:
    """Return what was found in this state of a part, which changes of others leave as it is; else find it again."""
    kept = job.memory.get(key)
    if kept is None or kept[0] != state:
        kept = job.memory[key] = (state, find())
    found: _Found = kept[1]
    return found


def followed(find: Callable[[Mapping[str, Any]], _Found]) -> Callable[[Job], tuple[_Found, ...]]:
    """Compute for each replicated job of a JobSet; after changes, again only for those that they touched."""

    @functools.wraps(find)
    def look(job: Job) -> tuple[_Found, ...]:
        every = (job.document.get("spec") or {}).get("replicatedJobs") or ()
        return _follow(job, find, len(every), lambda index: find(every[index]), _index)

    return look


def follow_parts(
    job: Job, key: object, find: Callable[[int], _Found], beside: tuple[object, ...] | None = None
) -> tuple[_Found, ...]:
    """Compute for each part of a training; after changes, again only for those that they touched.

    So a change of one part costs the same however many parts there are.

    Args:
        job: a JobSet.
        key: stands for what is found.
        find: from the index of a part to what is found, which depends on that part and on what is outside of all parts.
        beside: what else it depends on, for each part.
    """
    order = _order(job)
    return _follow(job, key, len(order), find, order.get, beside)


def _order(job: Job) -> Mapping[Path, int]:
    if _ORDER not in job.memory:  # once, as the parts
        job.memory[_ORDER] = (0, {path: index for index, (path, _) in enumerate(job.parts.places)})
    order: Mapping[Path, int] = job.memory[_ORDER][1]
    return order


def _index(path: Path) -> int:
    return int(path[-1])


def _follow(  # noqa: PLR0913  # what, of how many, and how they are told apart
    job: Job,
    key: object,
    count: int,
    find: Callable[[int], _Found],
    index: Callable[[Path], int | None],
    beside: tuple[object, ...] | None = None,
) -> tuple[_Found, ...]:
    seen, kept = job.changes.count, job.memory.get((_FOLLOWED, key))
    since, others = kept[0] if kept is not None else (0, None)
    every: tuple[_Found, ...] = kept[1] if kept is not None else ()
    touched = job.changes.touched(since)
    if len(every) != count or () in touched:
        stale = set(range(count))
    else:
        stale = {each for each in map(index, touched) if each is not None}
        if beside is not None and beside is not others:
            stale |= {each for each in range(count) if others is None or beside[each] != others[each]}
    found = {each: find(each) for each in stale}
    if len(every) != count:
        every = tuple(map(found.__getitem__, range(count)))
    elif new := {each: one for each, one in found.items() if every[each] is not one and every[each] != one}:
        changed = list(every)
        for each, one in new.items():
            changed[each] = one
        every = tuple(changed)
    job.memory[_FOLLOWED, key] = ((seen, beside), every)
    return every


def keep(job: Job, key: object, state: object, find: Callable[[], _Found]) -> _Found:
    """Compute once for each state that the caller names, such as a tuple that `follow_parts` returned."""
    kept = job.memory.get((_KEPT, key))
    if kept is None or (kept[0] is not state and kept[0] != state):
        kept = job.memory[_KEPT, key] = (state, find())
    found: _Found = kept[1]
    return found


_FOLLOWED, _ORDER, _KEPT = "followed", "order", "kept"
