"""Runtimes: which of those that a cluster has fits a trainer, by the label `trainer.kubeflow.org/framework`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.strategies.documents import names

__all__ = ["RuntimeChoiceError", "choose_runtime", "framework_of"]

_SHOWN = 20


class RuntimeChoiceError(LookupError):
    """No runtime fits, or several do; the message lists what there is and says what to do."""


def framework_of(runtime: Mapping[str, Any]) -> str:
    """Return the framework label of a runtime document, "" when it has none."""
    metadata = runtime.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    found = labels.get(names.FRAMEWORK_LABEL) if isinstance(labels, Mapping) else None
    return found if isinstance(found, str) else ""


def choose_runtime(runtimes: Iterable[Mapping[str, Any]], framework: str, name: str | None = None) -> Mapping[str, Any]:
    """Return the one runtime for a framework.

    Of a TrainingRuntime and a ClusterTrainingRuntime of one name, the namespaced one is chosen, as kubeflow's SDK
    chooses (`kubeflow/trainer/backends/kubernetes/backend.py`, 0.5.0).

    Args:
        runtimes: documents of ClusterTrainingRuntimes and TrainingRuntimes.
        framework: value of the label.
        name: the runtime's name; needed where several fit.

    Raises:
        RuntimeChoiceError: none fits, several fit and `name` is None, or the named one is of another framework.
    """
    given = _by_name(runtimes)
    if name is not None:
        return _named(given, framework, name)
    fitting = [each for each, runtime in given.items() if framework_of(runtime) == framework]
    if len(fitting) == 1:
        return given[fitting[0]]
    if fitting:
        raise RuntimeChoiceError(
            f"{len(fitting)} runtimes are for {framework}: {_listed(fitting)}; choose one by its name"
        )
    raise RuntimeChoiceError(
        f"no runtime has the label {names.FRAMEWORK_LABEL}: {framework}; there are {_with_frameworks(given)}"
    )


def _named(given: Mapping[str, Mapping[str, Any]], framework: str, name: str) -> Mapping[str, Any]:
    runtime = given.get(name)
    if runtime is None:
        raise RuntimeChoiceError(f"there is no runtime {name!r}; there are {_with_frameworks(given)}")
    found = framework_of(runtime)
    if found != framework:
        said = f"is for {found}" if found else f"lacks the label {names.FRAMEWORK_LABEL}"
        raise RuntimeChoiceError(
            f"runtime {name!r} {said}, and this trainer is for {framework}; there are {_with_frameworks(given)}"
        )
    return runtime


def _by_name(runtimes: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for runtime in runtimes:
        name = str((runtime.get("metadata") or {}).get("name", ""))
        if name not in found or runtime.get("kind") == "TrainingRuntime":
            found[name] = runtime
    return found


def _with_frameworks(given: Mapping[str, Mapping[str, Any]]) -> str:
    if not given:
        return "no runtimes at all"
    return _listed([f"{name} ({framework_of(runtime) or 'no framework label'})" for name, runtime in given.items()])


def _listed(items: list[str]) -> str:
    rest = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(sorted(items)[:_SHOWN]) + rest
