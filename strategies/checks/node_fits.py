"""Hosts: pods that ask for a host which cannot hold them, so that they wait for ever.

Sources: kubernetes `pkg/scheduler/framework/plugins` nodeports, interpodaffinity and noderesources,
`pkg/apis/core/v1/defaults.go` defaultHostNetworkPorts; jobset `pkg/webhooks/pod_mutating_webhook.go` (exclusive
topology); the labels of GPU feature discovery and of AMD's node labeller. How many devices a node has nobody but the
cluster knows: no host is known with more than 16 GPUs, and more is a warning.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import loose, names, paths, pods, quantities
from muster.strategies.documents.findings import Severity
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.templates import Template
from muster.strategies.platform import machines
from muster.strategies.roles.affinities import REQUIRED

__all__ = ["Fault", "faults", "lets"]

Fault = tuple[Path, Any, str, str, Severity]
"""Place inside the pod spec, value, message, rule and severity."""
_RULE = "core/no-node"

_MOST = 16  # GPUs of one host: 16 V100 in a DGX-2, 16 A100 in an a2-megagpu-16g
_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_COUNT = "nvidia.com/gpu.count"
_LABELLED = {"nvidia.com/gpu.": "nvidia.com/gpu", "amd.com/gpu.": "amd.com/gpu", "beta.amd.com/gpu.": "amd.com/gpu"}
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_JOBSET_NAME, _JOB_NAME = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
_TERMS: Path = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
_WAITS = "so some of them wait for ever"
_NAMED = 5


def faults(template: Template) -> Iterator[Fault]:
    """Yield what keeps the pods of one replicated job from the hosts that they ask for."""
    spec = template.raw_spec
    selector = loose.mapping(spec.get("nodeSelector"))
    if selector or spec.get("affinity"):
        asked = _asked(spec)
        yield from _by_count(spec, selector, asked.get("nvidia.com/gpu", 0))
        yield from _by_maker(selector, asked)
        if asked and selector:
            yield from _without(selector, asked)
        if selector and spec.get("affinity"):
            yield from _nowhere(selector, spec["affinity"])
    host = _host(template, selector)
    if host is not None:
        yield from _on_one_host(template, *host)


def _asked(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the GPUs of a pod by their resource."""
    found: dict[str, int] = {}
    for container in spec.get("containers") or ():
        limits = loose.member(container.get("resources"), "limits")
        for name in _GPUS:
            if name in limits:
                found[name] = found.get(name, 0) + quantities.count(limits[name])
    return found


def _by_count(spec: Mapping[str, Any], selector: Mapping[str, Any], asked: int) -> Iterator[Fault]:
    """Compare the number of GPUs that a label of the nodes has to be with the number that a pod asks for."""
    message = f"such a node has fewer than the {asked} GPUs that a pod asks for, so the pods wait for ever; correct one"
    given = selector.get(_COUNT)
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 4 and int(given) < asked:
        yield ("nodeSelector", _COUNT), given, message, _RULE, Severity.WARNING
    terms = loose.sequence(loose.member(spec, "affinity", "nodeAffinity", REQUIRED).get("nodeSelectorTerms"))
    few = [_is_below(term, asked) for term in terms] if 0 < asked <= _MOST else []
    if few and all(few):
        yield _TERMS, None, message, _RULE, Severity.WARNING


def _is_below(term: Any, asked: int) -> bool:
    """Whether a term allows no node of as many GPUs as are asked for."""
    about = [each for each in loose.items(term, "matchExpressions") if each.get("key") == _COUNT]
    return bool(about) and not any(
        all(lets(each, str(count)) for each in about) for count in range(asked, 2 * _MOST + 1)
    )


def _by_maker(selector: Mapping[str, Any], asked: Mapping[str, int]) -> Iterator[Fault]:
    """Compare the maker of the GPUs of the nodes with that of the GPUs that a pod asks for."""
    for key in selector if asked else ():
        held = next((name for start, name in _LABELLED.items() if key.startswith(start)), None)
        if held is not None and held not in asked and selector[key] != "false":
            message = f"a node of this label has {held}, and the pods ask for {' and '.join(asked)}; correct one"
            yield ("nodeSelector", key), selector[key], message, _RULE, Severity.WARNING
            return


def _without(selector: Mapping[str, Any], asked: Mapping[str, int]) -> Iterator[Fault]:
    """Report nodes that say that they have no GPU, and nodes of Windows, for which there is no plugin of devices."""
    for key, value, what in _LACKING:
        if selector.get(key) == value:
            message = f"such a node has no {' and no '.join(asked)}, so the pods wait for ever; correct it"
            yield ("nodeSelector", key), value, f"{what}: {message}", _RULE, Severity.WARNING
    for key in sorted(_TPUS & selector.keys()):
        message = f"such a node has TPUs and no {' and no '.join(asked)}, so the pods wait for ever; correct one"
        yield ("nodeSelector", key), selector[key], message, _RULE, Severity.WARNING
    yield from _by_machine(selector, sum(asked.values()))


def _by_machine(selector: Mapping[str, Any], asked: int) -> Iterator[Fault]:
    """Compare the GPUs that a pod asks for with those of the type of machine that it asks for."""
    for key in machines.TYPES:
        value = selector.get(key)
        held = machines.gpus(value) if isinstance(value, str) else None
        if held is not None and held < asked:
            has = "no GPU" if not held else f"{held} GPU{'s' if held != 1 else ''}"
            message = f"such a machine has {has}, and a pod asks for {asked}, so the pods wait for ever; correct one"
            yield ("nodeSelector", key), value, message, _RULE, Severity.WARNING


_TPUS = frozenset({"cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"})
_LACKING = (
    ("nvidia.com/gpu.present", "false", "a node without GPUs"),
    ("kubernetes.io/os", "windows", "a node of Windows"),
    ("beta.kubernetes.io/os", "windows", "a node of Windows"),
)


def _host(template: Template, selector: Mapping[str, Any]) -> tuple[Path, str, bool] | None:
    """Return where it is written that all pods of a Job share one host, its name, and whether a scheduler decides."""
    name, wanted = template.raw_spec.get("nodeName"), selector.get(names.HOSTNAME_LABEL)
    if isinstance(name, str) and name:
        return ("nodeName",), name, False
    if isinstance(wanted, str) and wanted:
        return ("nodeSelector", names.HOSTNAME_LABEL), wanted, True
    annotations = [loose.mapping(paths.lookup(template.document, ("metadata", "annotations")))]
    annotations += [held for held, _ in template.metadata("annotations")]
    if any(held.get(_EXCLUSIVE) == names.HOSTNAME_LABEL for held in annotations):
        return (), _EXCLUSIVE, True
    if _is_about_itself(template, "podAffinity"):
        return ("affinity", "podAffinity"), "podAffinity", True
    return None


def _on_one_host(template: Template, place: Path, host: str, scheduled: bool) -> Iterator[Fault]:
    """Judge pods that have to share one host."""
    count = pods.at_once(template.raw) * (1 if host == _EXCLUSIVE else pods.replicas(template.raw))
    if count < 2:
        return
    port = _port(template.raw_spec)
    if port is not None:
        message = f"{count} pods with the host's port {port} cannot be on one host, {_WAITS}; remove one of the two"
        yield place, host, message, _RULE, Severity.ERROR
    elif scheduled and _is_about_itself(template, "podAntiAffinity"):
        message = f"{count} pods that keep each other from a host cannot be on one, {_WAITS}; remove one of the two"
        yield place, host, message, _RULE, Severity.ERROR
    else:
        devices = sum(_asked(template.raw_spec).values()) * count
        if devices > _MOST:
            message = f"the {count} pods ask for {devices} GPUs of one host, {_WAITS}; let them be on several"
            yield place, host, message, _RULE, Severity.WARNING


def _port(spec: Mapping[str, Any]) -> int | None:
    """Return a port of the host that each pod takes."""
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            found = port.get("containerPort") if spec.get("hostNetwork") is True else port.get("hostPort")
            if type(found) is int and found:
                return found
    return None


def _is_about_itself(template: Template, kind: str) -> bool:
    """Whether a required affinity or anti-affinity of pods about hosts selects the pods of the job themselves."""
    affinity = template.raw_spec.get("affinity")
    terms = loose.member(affinity, kind).get(REQUIRED) if affinity else None
    if not terms:
        return False
    labels = _labels(template)
    return any(
        term.get("topologyKey") == names.HOSTNAME_LABEL and _selects(term.get("labelSelector"), labels)
        for term in loose.mappings(terms)
    )


def _labels(template: Template) -> dict[str, Any]:
    """Return the labels of the pods: their own, and those of JobSet."""
    own, _ = next(template.metadata("labels"))
    name = loose.mapping(template.document.get("metadata")).get("name")
    return {_JOBSET_NAME: name, _JOB_NAME: template.raw.get("name"), **own}


def _selects(selector: Any, labels: Mapping[str, Any]) -> bool:
    """Whether a selector certainly selects pods of these labels."""
    wanted = loose.member(selector, "matchLabels")
    about = loose.sequence(loose.mapping(selector).get("matchExpressions"))
    return (
        bool(wanted or about)
        and all(labels.get(key) == value for key, value in wanted.items())
        and all(loose.mapping(each).get("key") in labels and lets(each, str(labels[each["key"]])) for each in about)
    )


def _nowhere(selector: Mapping[str, Any], affinity: Mapping[str, Any]) -> Iterator[Fault]:
    """Report terms of which none allows what the pod's own selector asks for."""
    terms = ((affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    if terms and all(_against(selector, term) for term in terms):
        about = {each.get("key") for term in terms for each in term.get("matchExpressions") or ()}
        both = itertools.islice((key for key in selector if key in about), _NAMED)
        asked = ", ".join(f"{key}={selector[key]}" for key in both)
        message = (
            f"no node can match any of these terms and the pod's nodeSelector, which asks for {asked}, so the pod "
            "waits for ever; change one of the two"
        )
        yield _TERMS, None, message, _RULE, Severity.ERROR


def _against(selector: Mapping[str, Any], term: Mapping[str, Any]) -> bool:
    """Whether an expression of a term does not allow the value of a label that the selector asks for."""
    found = term.get("matchExpressions") or ()
    return any(each.get("key") in selector and not lets(each, selector[each["key"]]) for each in found)


def lets(expression: Mapping[str, Any], value: str) -> bool:
    """Whether an expression about a label (`matchExpressions`) allows this value; an unknown operator does."""
    judge = _OPERATORS.get(str(expression.get("operator")))
    return judge is None or judge(value, expression.get("values") or ())


def _is_beyond(value: str, bounds: Sequence[Any], sign: int) -> bool:
    try:
        return bool(bounds) and sign * int(value) > sign * int(bounds[0])
    except (TypeError, ValueError):
        return False


_OPERATORS: Mapping[str, Callable[[str, Sequence[Any]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda _value, _values: True,
    "DoesNotExist": lambda _value, _values: False,
    "Gt": lambda value, values: _is_beyond(value, values, 1),
    "Lt": lambda value, values: _is_beyond(value, values, -1),
}
