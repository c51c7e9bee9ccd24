"""Runtimes: which of those that a cluster has fits a trainer, by the label `trainer.kubeflow.org/framework`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.findings import quoted

__all__ = ["Document", "RuntimeChoiceError", "check_document", "choose_runtime", "framework_of"]

Document: TypeAlias = Mapping[str, Any]
"""A Kubernetes object."""
_SHOWN = 20


class RuntimeChoiceError(LookupError):
    """No runtime fits, or several do; the message lists what there is and says what to do."""


def check_document(runtime: object) -> None:
    """Refuse what is not the document of a runtime, such as its name.

    Raises:
        RuntimeChoiceError: it is not.
    """
    if not isinstance(runtime, Mapping) or not decoding.read(runtime, model.Namespace).metadata.name:
        raise RuntimeChoiceError(
            f"runtime: {quoted(runtime)} must be the document of a runtime, a dictionary with metadata.name, as "
            "yaml.safe_load makes one of `kubectl get clustertrainingruntime NAME -o yaml`"
        )


def framework_of(runtime: Document) -> str:
    """Return the framework label of a runtime document, "" when it has none."""
    return decoding.read(runtime, model.Namespace).metadata.labels.get(names.FRAMEWORK_LABEL, "")


def choose_runtime(runtimes: Iterable[Document], framework: str, name: str | None = None) -> Document:
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


def _named(given: Mapping[str, Document], framework: str, name: str) -> Document:
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


def _by_name(runtimes: Iterable[Document]) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for runtime in runtimes:
        name = decoding.read(runtime, model.Namespace).metadata.name
        if name not in found or runtime.get("kind") == "TrainingRuntime":
            found[name] = runtime
    return found


def _with_frameworks(given: Mapping[str, Document]) -> str:
    if not given:
        return "no runtimes at all"
    return _listed([f"{name} ({framework_of(runtime) or 'no framework label'})" for name, runtime in given.items()])


def _listed(items: list[str]) -> str:
    rest = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(sorted(items)[:_SHOWN]) + rest
