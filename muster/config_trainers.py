"""The configuration of a framework, which makes a training job, and the registry of the frameworks that have one.

The shape is that of KEP-2839 (kubeflow/trainer#3930): a config says its framework's label and command, and renders its
fields as arguments. Names of earlier proposals (#3263) are aliases. What Muster adds is that `validate` asks the same
code that the webhook runs, so client and cluster cannot disagree.
"""

from __future__ import annotations

import abc
import importlib
import importlib.metadata
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from muster import field_types, runtime_choice
from muster.field_types import EXAMPLE
from muster.runtime_choice import Document
from muster.strategies.documents import decoding, model, names
from muster.strategies.documents.findings import Finding, Severity

__all__ = [
    "ENTRY_POINT_GROUP",
    "BackendError",
    "ConfigTrainer",
    "FrameworkConfig",
    "LLMTrainer",
    "TrainerError",
    "get_backend",
    "get_framework",
    "get_registered_backends",
    "register_backend",
    "register_framework",
]

if TYPE_CHECKING:
    from kubeflow.trainer.types import types

    from muster.kubeflow import Option, TrainArguments
    from muster.webhook.admission.policies import Policy


ENTRY_POINT_GROUP = "muster.backends"
"""Entry points of other distributions; the name is the framework, the value a `FrameworkConfig`."""

_NAME = "trainer"
_ALIASES = {"gpu": "nvidia.com/gpu", "storage": "ephemeral-storage"}
_STANDARD = frozenset({"cpu", "memory", "gpu", "storage", "ephemeral-storage"})

_Config = TypeVar("_Config", bound="FrameworkConfig")
_registered: dict[str, type[FrameworkConfig]] = {}


class TrainerError(ValueError):
    """A trainer that the webhook would refuse.

    Attributes:
        findings: all findings, warnings and notes too.
    """

    def __init__(self, trainer: FrameworkConfig, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        errors = [trainer.told(each) for each in findings if each.severity is Severity.ERROR]
        super().__init__(f"{type(trainer).__name__} cannot train: " + "; ".join(errors))


class BackendError(ValueError):
    """A framework without a trainer, with two, or with one that cannot be imported."""


@dataclass(kw_only=True)
class FrameworkConfig(abc.ABC):
    """A training job by configuration: what to train, on how many nodes, with which devices.

    A subclass is a dataclass with the framework's parameters as fields. It says the label of its runtimes in
    `framework` and the launch in `command`, and turns its fields into arguments in `to_args`.

    Attributes:
        framework: value of the label `trainer.kubeflow.org/framework` on the runtimes that can run it.
        command: the launch, without arguments.
        num_nodes: number of pods; the runtime's by default.
        num_proc_per_node: processes of each pod; one for each device by default.
        resources_per_node: of each pod, such as `{"gpu": 4, "memory": "64Gi"}`, with the short names of kubeflow's SDK:
            `gpu` is `nvidia.com/gpu`, `mig-1g.5gb` is `nvidia.com/mig-1g.5gb`.
        env: environment variables of the training container.
        role: `trainer` or `sampler`, where the platform places roles (docs/sharing.md).
        claim_profile: name of the platform's profile whose devices, or seat on a shared one, each pod gets
            (docs/sharing.md).
        resource_claims: entries like `resourceClaimsPerNode` of KEP-2782, where a profile's name is not enough.
    """

    framework: ClassVar[str] = ""
    command: ClassVar[tuple[str, ...]] = ()
    runtime_rules: ClassVar[frozenset[str]] = frozenset()
    """Rules whose findings depend on the runtime, and are not judged without it."""

    num_nodes: int | None = None
    num_proc_per_node: int | None = None
    resources_per_node: Mapping[str, int | str] | None = field(default=None, metadata={EXAMPLE: {"gpu": 4}})
    env: Mapping[str, str] = field(default_factory=dict, metadata={EXAMPLE: {"NAME": "value"}})
    role: Literal["trainer", "sampler"] | None = None
    claim_profile: str | None = None
    resource_claims: Sequence[Document] | None = None

    def to_command(self) -> tuple[str, ...]:
        """Return the launch: program and fixed arguments."""
        return self.command

    @abc.abstractmethod
    def to_args(self) -> list[str]:
        """Return the arguments that stand behind the command, `spec.trainer.args`.

        Raises:
            ValueError: a field has a value that has no spelling on a command line.
        """

    def origin(self, index: int) -> str:  # noqa: ARG002  # a subclass knows its arguments
        """Return the field that `to_args()[index]` comes from, such as `lora.r`; "" when it is not known."""
        return ""

    def validate(self, runtime: Document | None = None, policy: Policy | None = None) -> list[Finding]:
        """Ask the webhook's own decision about the job.

        Args:
            runtime: the document of the runtime. Without it the job is judged with a runtime of the framework that
                sets nothing, and what depends on the runtime is not judged.
            policy: the platform's policy. Without it profiles and roles are not known, and not judged.

        Returns:
            Warnings and notes.

        Raises:
            TrainerError: the webhook would refuse the job, or a field has another type than its annotation; it has all
                findings.
            RuntimeChoiceError: `runtime` is no document of a runtime.
            ValueError: a field has a value that has no spelling on a command line.
        """
        from muster import webhook_verdict  # noqa: PLC0415  # the decision costs ten times the rest of this package

        self.check_types()
        if runtime is not None:
            runtime_choice.check_document(runtime)
        found = webhook_verdict.judge(self, runtime or self.stand_in(), policy)
        if runtime is None:
            found = [each for each in found if not self._depends_on_runtime(each)]
        if any(each.severity is Severity.ERROR for each in found):
            raise TrainerError(self, found)
        return found

    def check_types(self) -> None:
        """Raise a TrainerError that lists all fields, and what is in them, of another type than their annotations.

        Raises:
            TrainerError: there is one.
        """
        found = self.misfits()
        if found:
            raise TrainerError(self, found)

    def misfits(self) -> list[Finding]:
        """Return an error for each field, and for each value in one, that no job can be written from."""
        return list(field_types.misfits(self))

    def stand_in(self) -> dict[str, Any]:
        """Return a runtime of the framework that sets nothing, to be judged with when the real one is not known."""
        about = {"labels": {names.ANCESTOR_LABEL: names.ANCESTOR_TRAINER}}
        pod = {"containers": [{"name": names.CONTAINER_NODE, "image": ""}]}
        template = {"metadata": about, "spec": {"template": {"spec": pod}}}
        node = {"name": names.CONTAINER_NODE, "template": template}
        return {
            "apiVersion": names.TRAINER_API_VERSION,
            "kind": "ClusterTrainingRuntime",
            "metadata": {"name": self.framework, "labels": {names.FRAMEWORK_LABEL: self.framework}},
            "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}},
        }

    def to_trainjob(self, name: str, *, runtime: str | Document, namespace: str | None = None) -> dict[str, Any]:
        """Return the TrainJob as a plain document, for `kubectl apply` or any client.

        Args:
            name: of the job.
            runtime: name of a ClusterTrainingRuntime, or the document of a runtime of either kind.
            namespace: of the job; without it that of whoever applies it.

        Raises:
            RuntimeChoiceError: the runtime is of another framework, or is neither a name nor a document.
            TrainerError: a field has another type than its annotation.
            ValueError: a field has a value that has no spelling on a command line.
        """
        self.check_types()
        if not isinstance(runtime, str):
            runtime_choice.check_document(runtime)
            name_of_runtime = decoding.read(runtime, model.Namespace).metadata.name
            runtime_choice.choose_runtime([runtime], self.framework, name_of_runtime)
        about = {"name": name, "namespace": namespace, "labels": self.labels(), "annotations": self.annotations()}
        return {
            "apiVersion": names.TRAINER_API_VERSION,
            "kind": "TrainJob",
            "metadata": {key: value for key, value in about.items() if value},
            "spec": {"runtimeRef": _reference(runtime), "trainer": self.to_trainer()},
        }

    def to_kubeflow(self, runtime: types.Runtime, options: Iterable[Option] = ()) -> TrainArguments:
        """Return what `TrainerClient.train` of kubeflow's SDK 0.5 needs: `client.train(**trainer.to_kubeflow(...))`.

        Args:
            runtime: of the SDK, such as `client.get_runtime(name)`.
            options: of the SDK, such as `kubeflow.trainer.options.Name`.

        Raises:
            SDKMissingError: the SDK is not installed.
            RuntimeChoiceError: the runtime is of another framework.
            ValueError: the SDK does not send one of the fields that are set.
        """
        from muster import kubeflow  # noqa: PLC0415  # stands on this module

        return kubeflow.to_arguments(self, runtime, options)

    def to_trainer(self) -> dict[str, Any]:
        """Return the member `spec.trainer` of the TrainJob.

        Raises:
            TrainerError: a field has another type than its annotation.
        """
        self.check_types()
        trainer: dict[str, Any] = {"command": list(self.to_command()), "args": self.to_args()}
        if self.num_nodes is not None:
            trainer["numNodes"] = self.num_nodes
        if self.num_proc_per_node is not None:
            trainer["numProcPerNode"] = self.num_proc_per_node
        if self.resources_per_node:
            quantities = {_resource(key): str(value) for key, value in self.resources_per_node.items()}
            trainer["resourcesPerNode"] = {"requests": quantities, "limits": dict(quantities)}
        if self.env:
            trainer["env"] = [{"name": key, "value": value} for key, value in self.env.items()]
        return trainer

    def labels(self) -> dict[str, str]:
        """Return the labels of the TrainJob that the webhook reads."""
        return {names.ROLE_LABEL: self.role} if self.role else {}

    def annotations(self) -> dict[str, str]:
        """Return the annotations of the TrainJob that the webhook reads."""
        found = {names.CLAIM_PROFILE_ANNOTATION: self.claim_profile} if self.claim_profile else {}
        if self.resource_claims:
            found[names.RESOURCE_CLAIMS_ANNOTATION] = json.dumps([dict(each) for each in self.resource_claims])
        return found

    def _depends_on_runtime(self, finding: Finding) -> bool:
        """Whether a finding is about what the runtime decides, such as words of the launch that nobody here wrote."""
        place = _index(finding.field, "spec.trainer.command")
        return finding.rule in self.runtime_rules or (place is not None and place >= len(self.to_command()))

    def told(self, finding: Finding) -> str:
        """Return a finding in the words of whoever wrote the trainer: with the field that its argument comes from."""
        index = _index(finding.field, "spec.trainer.args")
        place = "" if index is None else self.origin(index)
        return f"{place or finding.field}: {finding.message} ({finding.rule})"


ConfigTrainer = LLMTrainer = FrameworkConfig
"""The names that earlier proposals had for it."""


def register_framework(cls: type[_Config]) -> type[_Config]:
    """Make a class the config of the framework that it declares; of several classes the last one wins.

    Raises:
        ValueError: the class declares no framework or no command.
    """
    if not (cls.framework and cls.command):
        raise ValueError(f"{_called(cls)} must declare a framework and a command")
    return register_backend(cls.framework)(cls)


def register_backend(framework: str) -> Callable[[type[_Config]], type[_Config]]:
    """Return a decorator that does the same for a framework of any name: how an earlier proposal spelt it."""

    def register(cls: type[_Config]) -> type[_Config]:
        _in_tree()
        _registered[framework] = cls
        return cls

    return register


def get_framework(framework: str) -> type[FrameworkConfig] | None:
    """Return the config of a framework; None where it has none.

    Raises:
        BackendError: as of `get_registered_backends`.
    """
    return get_registered_backends().get(framework)


def _in_tree() -> None:
    """Register the configs of this package, before those that shall win over them."""
    for module in ("muster.torchtune", "muster.trl"):
        importlib.import_module(module)


def get_registered_backends() -> dict[str, type[FrameworkConfig]]:
    """Return the configs by framework, those of other distributions too.

    Raises:
        BackendError: an entry point of group `muster.backends` cannot be imported, or is for a framework that has a
            config: two distributions have no order in which the last could win.
    """
    _in_tree()
    found = dict(_registered)
    for point in sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)):
        _add(found, point.name, _loaded(point))
    return found


def get_backend(framework: str) -> type[FrameworkConfig]:
    """Return the trainer of a framework.

    Raises:
        BackendError: it has none; those that there are, are listed.
    """
    found = get_registered_backends()
    if framework not in found:
        raise BackendError(
            f"no trainer is registered for framework {framework!r}; there are {', '.join(sorted(found))}"
        )
    return found[framework]


def _add(backends: dict[str, type[FrameworkConfig]], framework: str, cls: type[FrameworkConfig]) -> None:
    taken = backends.get(framework)
    if taken is not None and taken is not cls:
        raise BackendError(
            f"framework {framework!r} has two trainers: {_called(taken)} and {_called(cls)}; uninstall or rename one"
        )
    backends[framework] = cls


def _loaded(point: importlib.metadata.EntryPoint) -> type[FrameworkConfig]:
    origin = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    try:
        found = point.load()
    except Exception as error:
        raise BackendError(
            f"entry point {point.name} = {point.value} of {origin} cannot be loaded: {type(error).__name__}: {error}; "
            "fix or uninstall that package"
        ) from error
    if not (isinstance(found, type) and issubclass(found, FrameworkConfig)):
        raise BackendError(f"entry point {point.name} = {point.value} of {origin} is not a subclass of FrameworkConfig")
    return found


def _index(field_path: str, words: str) -> int | None:
    """Return the place that a field path names in a list of words, None where it names another field."""
    head, _, rest = field_path.partition(f"{words}[")
    number = rest.partition("]")[0] if not head else ""
    return int(number) if number.isdecimal() else None


def _called(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _reference(runtime: str | Document) -> dict[str, str]:
    if isinstance(runtime, str):
        return {"name": runtime}
    reference = {"name": str(runtime["metadata"]["name"])}
    return reference if runtime.get("kind") != "TrainingRuntime" else reference | {"kind": "TrainingRuntime"}


def _resource(key: str) -> str:
    """Spell a resource as kubeflow's SDK does (`get_resources_per_node`, 0.5.0)."""
    low = key.lower()
    key = low if low in _STANDARD or low.startswith("mig-") else key
    return f"nvidia.com/{key}" if key.startswith("mig-") else _ALIASES.get(key, key)
