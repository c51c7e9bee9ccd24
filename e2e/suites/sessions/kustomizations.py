"""`manifests/sessions` as a person applies it, for other namespaces, names and arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.support.kubectls import Kubectl

__all__ = ["bounded", "built", "container", "moved", "named", "with_words"]

Document = dict[str, Any]
_GATEWAY = "gateway"  # its name in the kustomization
_IMAGE, _LEASE = "muster-engine:0.1.0", "/run/muster/devices"  # of the kustomization
_PLACES = ("namespace", "kubernetes.io/metadata.name")
_NAMED = ("app.kubernetes.io/instance", "muster.dev/gateway", "serviceAccountName")


def built(kubectl: Kubectl, folder: str) -> list[Document]:
    """Return the documents of a kustomization below `manifests`."""
    text = kubectl.run("kustomize", str(REPOSITORY / "manifests" / folder)).expect().out
    return [each for each in yaml.safe_load_all(text) if each]


def moved(value: Any, namespaces: Mapping[str, str]) -> Any:
    """Return documents with other namespaces, wherever one is named.

    Args:
        value: of a document, or all of them.
        namespaces: the new ones by those of the kustomization.
    """
    if isinstance(value, list):
        return [moved(each, namespaces) for each in value]
    if isinstance(value, dict):
        return {
            key: namespaces.get(each, each) if key in _PLACES and isinstance(each, str) else moved(each, namespaces)
            for key, each in value.items()
        }
    flag, _, last = value.partition("=") if isinstance(value, str) else ("", "", "")
    return f"{flag}={namespaces[last]}" if flag == "--namespace" and last in namespaces else value


def named(value: Any, name: str) -> Any:
    """Return documents of a Gateway of another name; containers and ports are called as before."""
    if isinstance(value, list):
        return [f"muster-{name}" if each == f"muster-{_GATEWAY}" else named(each, name) for each in value]
    if not isinstance(value, dict):
        return f"--gateway={name}" if value == f"--gateway={_GATEWAY}" else value
    out = {key: named(each, name) for key, each in value.items()}
    for key in _NAMED:
        if out.get(key) == _GATEWAY:
            out[key] = name
    is_part = {"image", "containerPort", "targetPort"} & out.keys()
    if out.get("name") in {_GATEWAY, f"muster-{_GATEWAY}"} and not is_part:
        out["name"] = str(out["name"]).removesuffix(_GATEWAY) + name
    return out


def bounded(
    documents: Sequence[Document],
    gateways: str,
    engines: str,
    name: str = _GATEWAY,
    image: str = _IMAGE,
    state: str = "state",
    lease: str = _LEASE,
) -> list[Document]:
    """Return documents whose admission policy is that of another Gateway.

    Args:
        documents: of a kustomization.
        gateways: the namespace of the Gateway.
        engines: the namespace of its engines.
        name: of the Gateway.
        image: of its engines.
        state: the folder of its volume with the weights.
        lease: the folder of the nodes with the socket of the agents of devices.
    """
    words = {
        f"muster-{_GATEWAY}.muster-engines": f"muster-{name}.{engines}",
        f":gateways:{_GATEWAY}'": f":{gateways}:{name}'",
        "'gateways'": f"'{gateways}'",
        f"'{_GATEWAY}'": f"'{name}'",
        f"== 'muster-{_GATEWAY}'": f"== 'muster-{name}'",
        f"== 'probe-{_GATEWAY}'": f"== 'probe-{name}'",
        _IMAGE: image,
        ":state/": f":{state}/",
        _LEASE: lease,
    }
    return [_replaced(each, words) if each["kind"].startswith("ValidatingAdmission") else each for each in documents]


def _replaced(document: Document, words: Mapping[str, str]) -> Document:
    out = json.dumps(document)
    for before, after in words.items():
        out = out.replace(before, after)
    made: Document = json.loads(out)
    return made


def container(documents: Sequence[Document], kind: str) -> Document:
    """Return the container of the only workload of a kind, to be changed."""
    (workload,) = (each for each in documents if each["kind"] == kind)
    found: Document
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    return found


def with_words(words: Sequence[str], **changed: str) -> list[str]:
    """Return arguments of which some have another value; those that were not there come last.

    Args:
        words: each `--KEY=VALUE`, or without a value.
        changed: the new values; `_` stands for `-`.
    """
    return list(_words(words, {f"--{key.replace('_', '-')}": value for key, value in changed.items()}))


def _words(words: Sequence[str], changed: Mapping[str, str]) -> Iterator[str]:
    known = {word.partition("=")[0] for word in words}
    for word in words:
        key = word.partition("=")[0]
        yield f"{key}={changed[key]}" if key in changed else word
    yield from (f"{key}={value}" for key, value in changed.items() if key not in known)
