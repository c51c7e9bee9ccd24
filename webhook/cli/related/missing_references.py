"""References: keys and files of ConfigMaps and Secrets of the input that are not there, and claims of another mode.

The pods are made and wait for ever, or their containers end at once. Sources: kubernetes
`pkg/kubelet/kubelet_pods.go` makeEnvironmentVariables, `pkg/volume/configmap/configmap.go` MakePayload,
`pkg/kubelet/volumemanager/populator`; execve(2). A program gets a file of settings as a word of its command line:
arguments of transformers as JSON or YAML (`HfArgumentParser`, LLaMA-Factory, axolotl), or DeepSpeed's JSON; what TRL
reads with `--config` is in `configurations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from muster.strategies.checks import volume_checks
from muster.strategies.documents import decoding, model
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.paths import Path
from muster.strategies.frameworks.trl import invocations
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import launches, readings
from muster.strategies.shell import invoked
from muster.webhook.cli.related import configurations, held_containers
from muster.webhook.cli.related.held_containers import Held, Seen
from muster.webhook.cli.related.related_documents import ConfigMap, Inputs, PersistentVolumeClaim, Secret

__all__ = ["check"]

_RULE_KEY, _RULE_FILE = "core/missing-key", "core/script-file"


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report keys and files that the ConfigMaps and Secrets of the input lack."""
    for template in templates.list_templates(job):
        for index, volume in enumerate(template.pod.volumes):
            for inside, name, message in _listed(held_containers.parts(volume), job.namespace, inputs):
                field = template.field("volumes", index, *inside)
                yield templates.placed(job, error(field, name, message, rule=_RULE_KEY))
    for held in held_containers.containers(job):
        yield from _variables(held, inputs)
        yield from _programs(held, inputs)
        yield from _saves(held, inputs)
    if inputs.has(job.namespace, PersistentVolumeClaim):
        yield from _devices(job, inputs)


def _listed(parts: Iterator[held_containers.Part], namespace: str, inputs: Inputs) -> Iterator[tuple[Path, str, str]]:
    for part in parts:
        found = None if part.files.optional else part.payload(inputs, namespace)
        for index, item in enumerate(part.files.items if found is not None else ()):
            if item.key and found is not None and item.key not in found:
                message = f"{part} of the input has no such key, so the pods wait for ever; correct one of them"
                yield (*part.place, "items", index, "key"), item.key, message


def _variables(held: Held, inputs: Inputs) -> Iterator[Finding]:
    for entry in held.env:
        source = entry.value_from or model.EnvVarSource()
        kinds: Mapping[type[ConfigMap | Secret], model.KeyRef | None]
        kinds = {ConfigMap: source.config_map_key_ref, Secret: source.secret_key_ref}
        for kind, named in kinds.items():
            found = inputs.only(kind, held.job.namespace, named.name) if named and named.key else None
            if named and found and not named.optional and named.key not in held_containers.values(found):
                message = (
                    f"{entry.name} comes from this key, which the {kind.__name__} {named.name} of the input lacks, so "
                    "the container is never made; correct one of the two"
                )
                yield held.report(error, "env", named.key, message, _RULE_KEY)


def _programs(held: Held, inputs: Inputs) -> Iterator[Finding]:
    """Judge the files of ConfigMaps that the command line of a container starts."""
    words = held.command
    if not words:
        return
    if "/" in words[0]:
        seen = held_containers.find(held, words[0], inputs)
        wrong = _started(seen) if seen is not None else ""
        if wrong:
            yield held.report(error, "command", words[0], wrong, _RULE_FILE)
        if seen is not None:
            return
    for path in _read(words):
        seen = held_containers.find(held, path, inputs)
        wrong = _missing(seen) if seen is not None else ""
        if seen is not None and not wrong and not path.endswith(".py") and "\r\n" in (seen.text or ""):
            wrong = f"{seen.where} has lines that end as those of Windows, of which the shell takes the \\r for a part"
            wrong = f"{wrong} of each last word; write the file with \\n alone"
        if wrong:
            yield held.report(error, "command", path, wrong, _RULE_FILE)
    for path in configurations.named(words):
        seen = held_containers.find(held, path, inputs)
        if seen is not None and not seen.exists:
            yield held.report(error, "command", path, _missing(seen), _RULE_FILE)


def _read(words: Sequence[str]) -> Iterator[str]:
    """Yield the files that a shell or a launch reads."""
    if launches.program(words[0]) in launches.SHELLS:
        file = invoked(words).file
        if file is not None:
            yield file
            return
    for launch in readings.read(words).launches:
        if launch.target.endswith(".py") and not launch.module:
            yield launch.target


def _missing(seen: Seen) -> str:
    return "" if seen.exists else f"{seen.where} of the input has no such file, so it never starts; correct one of them"


def _started(seen: Seen) -> str:
    """Return why the kernel does not start a file, as a clause; "" where it may."""
    text = seen.text
    if not seen.exists or text is None:
        return _missing(seen)
    if not text.startswith("#!"):
        return (
            f"the file of {seen.where} does not begin with #! and its interpreter, so the kernel does not start it "
            "(exec format error); add the line, or start it with bash"
        )
    if text.partition("\n")[0].endswith("\r"):
        return (
            f"the first line of the file of {seen.where} ends as those of Windows, so its interpreter does not exist; "
            "write the file with \\n alone"
        )
    return ""


def _devices(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report block devices that are mounted as folders, and folders that are used as devices."""
    for held in held_containers.containers(job):
        volumes = held_containers.volumes(held.template)
        mounted = [("volumeMounts", each.name, each.mount_path) for each in held.container.volume_mounts]
        mounted += [("volumeDevices", each.name, each.device_path) for each in held.container.volume_devices]
        for part, name, path in mounted:
            claim = volumes[name].persistent_volume_claim if name in volumes else None
            found = inputs.only(PersistentVolumeClaim, job.namespace, claim.claim_name) if claim else None
            mode = found and (found.volume_mode or "Filesystem")  # SetDefaults
            if mode == "Block" and part == "volumeMounts":
                message = "is mounted as a folder, and its claim is a block device; use volumeDevices, or another claim"
            elif mode == "Filesystem" and part == "volumeDevices":
                message = (
                    "is used as a block device, and its claim is a file system; use volumeMounts, or another claim"
                )
            else:
                continue
            yield held.report(error, part, path, f"{message}: the containers never start", "core/volume-mode")


_SETTINGS = (".json", ".yaml", ".yml")
_SAVING = ("save_on_each_node", "output_dir")


def _saves(held: Held, inputs: Inputs) -> Iterator[Finding]:
    """Report a file of settings at the command line of the training that names it."""
    job, place = held.job, held.job.container
    if place is None or (*held.template.pod_path, *held.inside) != place.path:
        return
    if not any(end in word for word in held.command for end in _SETTINGS):
        return
    for launch in readings.read(held.command).launches:
        flags, of_trl = volume_checks.settings_of(launch.rest), invocations.within(launch) is not None
        for before, word in zip(("", *launch.rest), launch.rest, strict=False):
            name = word.partition("=")[2] if word.startswith("--") else word
            is_read = name.endswith(_SETTINGS) and not (of_trl and before == "--config")
            seen = held_containers.find(held, name, inputs) if is_read else None
            found = _settings(configurations.read(seen.text)) if seen is not None and not seen.secret else {}
            message = volume_checks.why(job, {**found, **flags}) if found else ""
            if message:
                part = "args" if held.writes("args") else "command"
                yield held.report(warning, part, name, f"in {seen}: {message}", volume_checks.RULE)


class _Checkpoint(Struct, frozen=True):
    use_node_local_storage: bool = False


class _DeepSpeed(Struct, frozen=True):
    checkpoint: _Checkpoint = _Checkpoint()


def _settings(found: Mapping[str, object]) -> Mapping[str, object]:
    """Return the settings of a file; DeepSpeed's member for the same stands for that of transformers."""
    kept = {name: found[name] for name in _SAVING if name in found}
    if decoding.read(found, _DeepSpeed).checkpoint.use_node_local_storage:
        kept["save_on_each_node"] = True
    return kept if "save_on_each_node" in kept else {}
