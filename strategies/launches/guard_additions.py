"""Guard: what a JobSet gets when it is created, so that the training in it is measured while it runs (docs/guard.md).

All of it is added, except where a container sets PYTHONPATH itself: the guard's folder is written in front, and an
update gets that back like any other value that Muster replaced. Each replicated job has one container that trains.

The PYTHONPATH of an image is in no document. So a second init container of the same image writes it down; the programs
are in `images/guard`. Image volumes are mounted noexec (KEP-4639), so that no program of the guard can start from one:
with `mount: image` an image's own PYTHONPATH is lost unless the pod spec repeats it.

The init containers ask for no more than the container that trains, and for no devices, so that the request of the pod,
its quality of service and a LimitRange stay as they were. They run as its user, and are allowed what Pod Security
`restricted` allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import decoding, names, paths, pods
from muster.strategies.documents.findings import note, warning
from muster.strategies.jobs import containers
from muster.strategies.jobs.containers import Kind
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import topologies, worlds

__all__ = ["LEFT_ALONE", "MOUNTED_AT", "Guard", "Inject", "Mount", "enforce", "equip", "is_certain"]

Inject = Literal["never", "open", "always"]
Mount = Literal["init", "image"]

LEFT_ALONE = "guard/left-alone"
"""Rule of what is said of a container that does not get the guard; it says nothing against the job."""
MOUNTED_AT = "/muster/guard"

_LEVELS = ("off", "report", "enforce")
_NAME, _SECOND = "muster-guard", "muster-guard-env"
_FOLDER = "/opt/muster-guard"  # in Muster's own image (images/webhook/Dockerfile)
_PYTHONPATH = "PYTHONPATH"
_OS = "kubernetes.io/os"
_AMOUNTS = ("cpu", "memory", "ephemeral-storage")
_USER = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "seLinuxOptions", "appArmorProfile")
_LEFT: Mapping[Kind, str] = {
    Kind.SERVER: "it answers requests and trains nothing",
    Kind.CLUSTER: "it holds the pod for processes that something else starts there",
    Kind.IDLE: "it starts no program that trains",
    Kind.REMOTE: "it starts its processes in the pods of other containers",
}


class Guard(Struct, frozen=True):
    """Which trainings the platform has measured, and how the guard gets into their pods.

    Attributes:
        inject: `open` for those of which documents alone do not tell ranks and devices for certain.
        mount: `init` copies the files from Muster's image into an emptyDir; `image` mounts that image (KEP-4639).
        image: Muster's own image, as nodes pull it.
    """

    inject: Inject = "never"
    mount: Mount = "init"
    image: str = ""


def enforce(job: Job, changes: Changes, guard: Guard, namespace_label: str | None) -> None:
    """Give the guard to each container of a JobSet that trains and is to be measured; of a TrainJob, judge its label.

    Args:
        job: the job as it stands after all other changes.
        changes: the record of changes.
        guard: what the platform offers.
        namespace_label: value of `muster.dev/guard` on the namespace, None where it has none.
    """
    if guard.inject == "never":
        return
    labels = list(_labels(job, namespace_label))
    certain = guard.inject == "open" and is_certain(job, changes)
    for value, where in labels if job.kind == "TrainJob" or job.owner is None else ():
        if value not in _LEVELS:
            message = "is not a level of the guard and was ignored; use report, enforce or off"
            changes.report(warning(where, value, message, rule="guard/label"))
    if job.kind != "JobSet" or job.is_untouched or (job.runtime is None and job.owner is None):
        return
    strict = namespace_label == "enforce"  # whatever the author of the job writes
    level = "enforce" if strict else next((value for value, _ in labels if value in _LEVELS), None)
    for view in job.views:
        place = view.container
        if place is None or _is_there(place) or certain:
            continue
        why = next(_hindrances(view, place, level), None)
        own, where = place.container.find_env(names.GUARD), paths.field(changes.document, place.path)
        if why is not None:
            say, though = (warning, ", though its namespace asks for enforce") if strict else (note, "")
            changes.report(say(where, None, f"does not get the guard{though}: {why}", rule=LEFT_ALONE))
            continue
        if strict and own is not None and own.literal != level:
            message = "kept as the job sets it, though its namespace asks for enforce"
            changes.report(warning(f"{where}.env[{names.GUARD}]", own.literal, message, rule="guard/level"))
        equip(place, changes, guard, level)
        _add_devices(view, place, changes)


def _labels(job: Job, namespace_label: str | None) -> Iterator[tuple[str, str]]:
    """Yield the value and the field of each label, the nearest first."""
    owner = job.owning.metadata.labels if job.kind == "JobSet" and job.owning else {}
    for labels, where in ((job.metadata.labels, ""), (owner, "TrainJob ")):
        if names.GUARD_LABEL in labels:
            yield labels[names.GUARD_LABEL], f"{where}metadata.labels[{names.GUARD_LABEL}]"
    if namespace_label is not None:
        yield namespace_label, f"namespace label {names.GUARD_LABEL}"


def _is_there(place: pods.Place) -> bool:
    return any(each.name == _NAME and each.mount_path == MOUNTED_AT for each in place.container.volume_mounts)


def is_certain(job: Job, changes: Changes) -> bool:
    """Whether a JobSet tells for certain how many ranks meet, and that they use all devices of their pods."""
    if job.kind != "JobSet":
        return False
    world, place = worlds.find_world(job), job.container
    if changes.findings or world is None or place is None or world.may_start_more or world.must_meet or world.doubt:
        return False
    counted = str(world.world_size) == place.container.env_value(names.EXPECTED_WORLD_SIZE)
    return counted and world.devices in (0, world.processes)


def _hindrances(job: Job, place: pods.Place, level: str | None) -> Iterator[str]:
    """Yield each reason why a container does not get the guard, the first one the most telling."""
    pod, own = place.pod, place.container
    if level == "off":
        yield f"label {names.GUARD_LABEL} is off"
    kind = containers.program(own, job.identify).kind
    if kind in _LEFT:
        yield _LEFT[kind]
    if "windows" in (pod.os.name, pod.node_selector.get(_OS)):
        yield "its pods run on Windows"
    if own.env_value(names.GUARD) == "off":
        yield f"it sets {names.GUARD} to off"
    search = [each.value_from for each in own.env if each.name == _PYTHONPATH]
    if len(search) > 1 or any(search):
        yield f"its {_PYTHONPATH} is not one text, in front of which the guard could stand; write it as one value"
    taken = {each.name for each in pod.volumes} | {each.name for each in (*pod.containers, *pod.init_containers)}
    if not taken.isdisjoint((_NAME, _SECOND)):
        yield f"its pods have a volume or a container called {_NAME}; give that another name"
    mounts = (each.mount_path for each in own.volume_mounts if each.mount_path)
    if any(pods.holds(each, MOUNTED_AT) or pods.holds(MOUNTED_AT, each) for each in mounts):
        yield f"it mounts a volume around or in {MOUNTED_AT}; mount that elsewhere"


def equip(place: pods.Place, changes: Changes, guard: Guard, level: str | None) -> None:
    """Give a container the guard.

    Args:
        place: the container as it stands in the document of `changes`.
        changes: the record of changes.
        guard: what the platform offers.
        level: `report` or `enforce`; None for the default of the guard that starts first: the one inside an image of
            Muster ends a wrong training, this one only reports.
    """

    def add(path: paths.Path, entry: Mapping[str, object], what: str, rule: str = "guard/files") -> None:
        changes.append(path, entry, rule=rule, reason=what)

    own, env = place.container.find_env(_PYTHONPATH), (*place.path, "env")
    volumes, inits = (*place.pod_path, "volumes"), (*place.pod_path, "initContainers")
    mount: dict[str, object] = {"name": _NAME, "mountPath": MOUNTED_AT, "readOnly": True}
    if guard.mount == "image":
        source = {"reference": guard.image, "pullPolicy": "IfNotPresent"}
        add(volumes, {"name": _NAME, "image": source}, "the files of the guard are in Muster's own image")
        mount["subPath"] = _FOLDER.lstrip("/")
    else:
        add(volumes, {"name": _NAME, "emptyDir": {"sizeLimit": "32Mi"}}, "the files of the guard are copied to here")
        copy = _init(place, _NAME, guard.image, "python3", "-I", "-S", f"{_FOLDER}/copy_guard.py", MOUNTED_AT)
        add(inits, copy, "this copies the files of the guard from Muster's own image")
        if own is None:
            written = (f"{MOUNTED_AT}/env-of-image", f"{MOUNTED_AT}/env/{place.container.name}")
            read = _init(place, _SECOND, place.container.image, *written)
            read |= {key: place.raw[key] for key in ("imagePullPolicy", "envFrom") if place.raw.get(key)}
            add(inits, read, f"this writes down the {_PYTHONPATH} of the image, which the guard puts behind itself")
    add((*place.path, "volumeMounts"), mount, "the guard measures the training while it runs")
    first = f"Python loads the guard from the first folder of {_PYTHONPATH}"
    if own is None:
        add(env, {"name": _PYTHONPATH, "value": MOUNTED_AT}, first, "guard/python-path")
    else:
        path, behind = (*env, place.container.env.index(own), "value"), f":{own.value}" if own.value else ""
        reason = f"{first}; those of the job stay behind it"
        changes.set(path, f"{MOUNTED_AT}{behind}", rule="guard/python-path", reason=reason)
    if level is not None and place.container.find_env(names.GUARD) is None:
        does = "ends a training of the wrong size, on a shared device or without shared gradients"
        reason = f"the guard {does if level == 'enforce' else 'reports what it measures, and ends no training'}"
        add(env, {"name": names.GUARD, "value": level}, reason, "guard/level")


def _init(place: pods.Place, name: str, image: str, *command: str) -> dict[str, object]:
    """Return an init container that writes into the folder of the guard."""
    raw = decoding.member(place.raw, "resources")
    asked = {kind: _amounts(decoding.member(raw, kind)) for kind in ("limits", "requests")}
    user = decoding.member(place.raw, "securityContext")
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    return {
        "name": name,
        "image": image,
        "command": [*command],
        "volumeMounts": [{"name": _NAME, "mountPath": MOUNTED_AT}],
        "resources": {kind: amounts for kind, amounts in asked.items() if amounts},
        "securityContext": {**{key: user[key] for key in _USER if key in user}, **confined},
    }


def _amounts(asked: Mapping[str, object]) -> dict[str, object]:
    return {name: asked[name] for name in _AMOUNTS if name in asked}


def _add_devices(job: Job, place: pods.Place, changes: Changes) -> None:
    """Tell the guard how many devices a pod asks for, where that is known."""
    found = topologies.read_topology(job).devices
    if found.count and found.exact and place.container.find_env(names.EXPECTED_DEVICES) is None:
        entry = {"name": names.EXPECTED_DEVICES, "value": str(found.count)}
        reason = "the guard says which of the devices that a pod asks for nobody uses"
        changes.append((*place.path, "env"), entry, rule="guard/expected-devices", reason=reason)
