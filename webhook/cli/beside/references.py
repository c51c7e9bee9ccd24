"""References: keys and files of ConfigMaps and Secrets of the input that a job names, and that are not there.

The pods are made and wait for ever, or their containers end at once. Sources: kubernetes v1.36.3
`pkg/kubelet/kubelet_pods.go` makeEnvironmentVariables, `pkg/volume/configmap/configmap.go` MakePayload; execve(2).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.paths import Path
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import launches, readings
from muster.strategies.shell import invoked
from muster.webhook.cli.beside import configurations, files, places, saves
from muster.webhook.cli.beside.files import Seen
from muster.webhook.cli.beside.inputs import Inputs, items, member
from muster.webhook.cli.beside.places import Held

__all__ = ["check"]

_KEYS = {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"}
_WHOLE = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
_RULE_KEY, _RULE_FILE = "core/missing-key", "core/script-file"


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report keys and files that the ConfigMaps and Secrets of the input lack."""
    for template in templates.list_templates(job):
        for index, volume in enumerate(items(template.spec, "volumes")):
            for inside, name, message in _listed(volume, job.namespace, inputs):
                place: Path = ("volumes", index, *inside)
                yield templates.placed(job, error(template.field(*place), name, message, rule=_RULE_KEY))
    told: set[str] = set()
    for held in places.containers(job):
        yield from _unread(held, inputs, told)
        yield from _variables(held, inputs)
        yield from _programs(held, inputs)
        yield from saves.check(held, inputs)


def _listed(volume: Mapping[str, Any], namespace: str, inputs: Inputs) -> Iterator[tuple[Path, str, str]]:
    for inside, kind, source in files.parts(volume):
        name = source.get("secretName" if kind == "Secret" else "name")
        found = files.payload(inputs, kind, namespace, name) if source.get("optional") is not True else None
        for index, item in enumerate(items(source, "items") if found is not None else ()):
            key = item.get("key")
            if isinstance(key, str) and found is not None and key not in found:
                message = (
                    f"the {kind} {name} of the input has no such key, so the pods wait for ever; correct one of them"
                )
                yield (*inside, "items", index, "key"), key, message


def _variables(held: Held, inputs: Inputs) -> Iterator[Finding]:
    for entry in held.env:
        for source, kind in _KEYS.items():
            named = member(entry, "valueFrom", source)
            key = named.get("key")
            found = files.values(inputs, kind, held.job.namespace, named.get("name")) if key else None
            if found is not None and key not in found and named.get("optional") is not True:
                message = (
                    f"{entry.get('name')} comes from this key, which the {kind} {named['name']} of the input lacks, so "
                    "the container is never made; correct one of the two"
                )
                yield held.report(error, "env", key, message, _RULE_KEY)


def _unread(held: Held, inputs: Inputs, told: set[str]) -> Iterator[Finding]:
    """Report objects that the API server refuses, because of what is in `data`; each once."""
    named = [
        (kind, member(each, "valueFrom", source).get("name"), "env")
        for each in held.env
        for source, kind in _KEYS.items()
    ]
    for each in items(held.container, "envFrom"):
        named += [(kind, member(each, source).get("name"), "envFrom") for source, kind in _WHOLE.items()]
    for volume in places.volumes(held.template).values():
        for _, kind, source in files.parts(volume):
            named.append((kind, source.get("secretName" if kind == "Secret" else "name"), "volumeMounts"))
    for kind, name, part in named:
        if isinstance(name, str) and f"{kind} {name}" not in told and (key := _refused(inputs, kind, held, name)):
            told.add(f"{kind} {name}")
            what = "a value that is not a text, which the API server refuses; put it in quotes"
            if kind == "Secret":
                what = "plain text, which the API server takes for base64 and refuses; write it into stringData"
            message = f"the {kind} {name} of the input has {key} in data as {what}, for the pods wait for it"
            yield held.report(error, part, name, message, "core/refused-secret")


def _refused(inputs: Inputs, kind: str, held: Held, name: str) -> str:
    """Return the key of an object's `data` that the API server refuses, "" for none; found out once."""
    kept = ("refused", kind, held.job.namespace, name)
    if kept not in inputs.memory:
        found = inputs.named(kind, held.job.namespace, name)
        data = member(found[0].document, "data") if len(found) == 1 else {}
        takes = _is_encoded if kind == "Secret" else _is_text
        inputs.memory[kept] = next((str(key) for key, text in data.items() if not takes(text)), "")
    key: str = inputs.memory[kept]
    return key[:_SHOWN]


def _is_text(text: Any) -> bool:
    """Whether the value of a ConfigMap's key is a text, or null."""
    return text is None or isinstance(text, str)


def _is_encoded(text: Any) -> bool:
    """Whether Go's decoder takes a text (encoding/base64 StdEncoding, without line ends), or something fills it in."""
    if not isinstance(text, str) or "$" in text or "{{" in text:
        return True
    try:
        base64.b64decode("".join(text.split("\n")).replace("\r", ""), validate=True)
    except ValueError:
        return False
    return True


_SHOWN = 60


def _programs(held: Held, inputs: Inputs) -> Iterator[Finding]:
    """Judge the files of ConfigMaps that the command line of a container starts."""
    words = held.command
    if not words:
        return
    if "/" in words[0]:
        seen = files.find(held, words[0], inputs)
        wrong = _started(seen) if seen is not None else ""
        if wrong:
            yield held.report(error, "command", words[0], wrong, _RULE_FILE)
        if seen is not None:
            return
    for path in _read(words):
        seen = files.find(held, path, inputs)
        wrong = _missing(seen) if seen is not None else ""
        if seen is not None and not wrong and not path.endswith(".py") and "\r\n" in (seen.text or ""):
            wrong = f"{seen.where} has lines that end as those of Windows, of which the shell takes the \\r for a part"
            wrong = f"{wrong} of each last word; write the file with \\n alone"
        if wrong:
            yield held.report(error, "command", path, wrong, _RULE_FILE)
    for path in configurations.named(words):
        seen = files.find(held, path, inputs)
        if seen is not None and not seen.exists:
            yield held.report(error, "command", path, _missing(seen), _RULE_FILE)


def _read(words: list[str] | Any) -> Iterator[str]:
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
