"""Trainers through kubeflow's SDK: what `TrainerClient.train` takes, and what the cluster says to it.

The SDK's own methods stay the face; this module adds what they lack. `FrameworkConfig.to_kubeflow` makes the arguments
of `TrainerClient.train`, `choose_runtime` finds the runtime of a framework, `train` shows the warnings and refusals of
admission webhooks, which the SDK drops, `Progress` is a callback for `wait_for_job_status`, and `trainer_status` reads
what a training posted. Only public members of kubeflow 0.5 are used, and nothing of it is imported before it is needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeAlias, TypedDict

from muster import runtime_choice
from muster.config_trainers import FrameworkConfig
from muster.runtime_choice import Document
from muster.strategies.documents import decoding, model, names

if TYPE_CHECKING:
    from kubeflow.trainer import TrainerClient
    from kubeflow.trainer.types import types

__all__ = [
    "AdmissionWarning",
    "Option",
    "Progress",
    "RefusedError",
    "SDKMissingError",
    "TrainArguments",
    "TrainerStatus",
    "choose_runtime",
    "submit",
    "to_arguments",
    "train",
    "trainer_status",
]

Option: TypeAlias = Callable[[dict[str, Any], Any, Any], None]
"""An option of `TrainerClient.train`: a callable of job, trainer and backend that fills in the job."""

_BAR = 20  # characters


class SDKMissingError(ImportError):
    """kubeflow's SDK is not installed."""


class AdmissionWarning(UserWarning):
    """A warning of an admission webhook, or of the API server, about a job that was created."""


class RefusedError(RuntimeError):
    """The cluster refused a job; the message is the API server's. The SDK raises RuntimeError too, with the name alone.

    Attributes:
        causes: one line for each error that was found: field, message, and the rule in parentheses.
    """

    def __init__(self, message: str, causes: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.causes = tuple(causes)


class TrainArguments(TypedDict):
    """Arguments of `TrainerClient.train`."""

    runtime: types.Runtime
    trainer: types.CustomTrainerContainer | types.BuiltinTrainer
    options: list[Option]


def to_arguments(trainer: FrameworkConfig, runtime: types.Runtime, options: Iterable[Option] = ()) -> TrainArguments:
    """Return what `TrainerClient.train` needs to send a trainer: `client.train(**to_arguments(...))`.

    The SDK makes a torchtune job only from its BuiltinTrainer, and others from its CustomTrainerContainer. Of both it
    takes nodes and resources; command, arguments, labels and annotations are set by an option.

    Args:
        trainer: what to train.
        runtime: of the SDK: `choose_runtime(client, "trl")` or `client.get_runtime(name)`.
        options: further ones, such as `kubeflow.trainer.options.Name`.

    Raises:
        SDKMissingError: kubeflow's SDK is not installed.
        RuntimeChoiceError: the runtime is of another framework.
        TrainerError: a field has another type than its annotation.
        ValueError: the SDK does not send one of the fields that are set.
    """
    trainer.check_types()
    runtime_choice.choose_runtime([_document(runtime)], trainer.framework, runtime.name)
    return {
        "runtime": runtime,
        "trainer": _carrier(trainer, runtime),
        "options": [*options, _launch(trainer)],
    }


def choose_runtime(client: TrainerClient, framework: str, name: str | None = None) -> types.Runtime:
    """Return the one runtime of the cluster for a framework.

    Args:
        client: of the SDK; runtimes without the framework's label are not in its list.
        framework: value of the label `trainer.kubeflow.org/framework`.
        name: the runtime's name; needed where several fit.

    Raises:
        RuntimeChoiceError: none fits, several fit and `name` is None, or the named one is of another framework.
    """
    named = _named(client, name) if name is not None else None
    if named is not None and named.trainer.framework == framework:
        return named
    found = {each.name: each for each in client.list_runtimes()}
    chosen = runtime_choice.choose_runtime(map(_document, found.values()), framework, name)
    return found[chosen["metadata"]["name"]]


def train(
    client: TrainerClient,
    trainer: FrameworkConfig | types.CustomTrainer | types.CustomTrainerContainer | types.BuiltinTrainer,
    *,
    runtime: str | types.Runtime | None = None,
    initializer: types.Initializer | None = None,
    options: Iterable[Option] = (),
) -> str:
    """Create a job by `client.train`, and tell what the cluster said to it.

    Warnings become `AdmissionWarning`s, as kubectl prints them.

    Args:
        client: of the SDK.
        trainer: one of this package, or of the SDK, whose `BuiltinTrainer` may have a config of this package.
        runtime: name or object; for a trainer of this package it may be left out where one runtime fits.
        initializer: as of `client.train`.
        options: as of `client.train`.

    Returns:
        The name of the job.

    Raises:
        RefusedError: the cluster refused the job; the message says why.
        RuntimeChoiceError, ValueError, SDKMissingError: as of `to_arguments` and `choose_runtime`.
    """
    trainer = _inside(trainer)
    arguments: Mapping[str, Any] = {"runtime": runtime, "trainer": trainer, "options": list(options)}
    if isinstance(trainer, FrameworkConfig):
        if runtime is None or isinstance(runtime, str):
            runtime = choose_runtime(client, trainer.framework, runtime)
        arguments = to_arguments(trainer, runtime, options)
    with _refusals_told():
        name = str(client.train(**arguments, initializer=initializer))
    _warn(client, name)
    return name


def submit(client: TrainerClient, document: Document) -> str:
    """Create a job from a plain document, and tell what the cluster said to it, as `train` does.

    It is for what the SDK does not send: `num_proc_per_node`, and the env of a torchtune job.

    Args:
        client: of the SDK, with its Kubernetes backend.
        document: of a TrainJob, from `FrameworkConfig.to_trainjob`; it goes into the client's namespace unless it names
            one.

    Returns:
        The name of the job.

    Raises:
        RefusedError: the cluster refused the job; the message says why.
    """
    metadata = document["metadata"]
    group, _, version = names.TRAINER_API_VERSION.partition("/")
    namespace = metadata.get("namespace") or client.backend.namespace
    with _refusals_told():
        client.backend.custom_api.create_namespaced_custom_object(group, version, namespace, "trainjobs", document)
    _warn(client, metadata["name"])
    return str(metadata["name"])


class TrainerStatus(NamedTuple):
    """What a training posted about itself (`status.trainerStatus`, KEP-2779).

    Attributes:
        progress: percent of the training that is done; None where that is not known.
        remaining: estimated seconds until its end; None where that is not known.
        metrics: the newest values by their names, such as `loss`; those of Muster's guard begin with `muster.dev/`.
        updated: when it was posted, in the API server's spelling.
    """

    progress: int | None
    remaining: int | None
    metrics: Mapping[str, str]
    updated: str

    def __str__(self) -> str:
        """`40 %, loss=1.2`, without the metrics of the guard."""
        parts = [f"{self.progress} %"] if self.progress is not None else []
        return ", ".join(
            parts + [f"{name}={value}" for name, value in self.metrics.items() if not name.startswith("muster.dev/")]
        )


def trainer_status(client: TrainerClient, name: str) -> TrainerStatus | None:
    """Return what the training of a job posted; None where nothing was, or Trainer does not serve it.

    Trainer serves it since v2.2 with the feature gate TrainJobStatus. transformers' `KubeflowCallback` and Muster's
    guard post it.

    Args:
        client: of the SDK, with its Kubernetes backend.
        name: of the job, in the namespace of the client.

    Raises:
        RefusedError: the API server did not give the job; the message says why.
    """
    backend = client.backend
    group, _, version = names.TRAINER_API_VERSION.partition("/")
    with _refusals_told():
        job = backend.custom_api.get_namespaced_custom_object(group, version, backend.namespace, "trainjobs", name)
    status = decoding.read(decoding.member(job, "status", "trainerStatus"), model.TrainerStatus)
    metrics = {each.name: each.value for each in status.metrics}
    if not status.last_updated_time:
        return None
    return TrainerStatus(
        status.progress_percentage, status.estimated_remaining_seconds, metrics, status.last_updated_time
    )


class Progress:
    """Shows how far a job is, as a callback: `client.wait_for_job_status(name, callbacks=[Progress()])`.

    On a terminal it is one line with a bar of the nodes that have started; elsewhere, as in a notebook, it is one line
    for each change.

    Args:
        stream: where to; stdout by default.
        clock: returns monotonic seconds.
        client: of the SDK; with it, what the training posts of its progress is shown too.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        client: TrainerClient | None = None,
    ) -> None:
        self._client = client
        self._stream = stream or sys.stdout
        self._clock = clock
        self._begun = clock()
        self._shown = ""

    def __call__(self, job: types.TrainJob) -> None:
        """Show the state of a job."""
        up = sum(each.name.startswith("node-") and each.status in ("Running", "Succeeded") for each in job.steps)
        told = f"{job.name}: {job.status}, {up} of {job.num_nodes} nodes started"
        posted = trainer_status(self._client, job.name) if self._client is not None else None
        told += f"; {posted}" if posted is not None and str(posted) else ""
        seconds = f"{self._clock() - self._begun:.0f} s"
        if self._stream.isatty():
            filled = "#" * (_BAR * up // max(job.num_nodes, 1))
            ended = "\n" if job.status in ("Complete", "Failed") else ""
            self._stream.write(f"\r\x1b[K[{filled:-<{_BAR}}] {told}, {seconds}{ended}")
        elif told != self._shown:
            self._stream.write(f"{told} ({seconds})\n")
        self._shown = told
        self._stream.flush()


def _inside(trainer: Any) -> Any:
    """Return the config of this package that a BuiltinTrainer of the SDK has, with the needs that are written there."""
    config = getattr(trainer, "config", None)
    if isinstance(trainer, FrameworkConfig) or not isinstance(config, FrameworkConfig):
        return trainer
    needs = {name: getattr(trainer, name, None) for name in ("num_nodes", "resources_per_node")}
    return dataclasses.replace(config, **{name: value for name, value in needs.items() if value is not None})


def _launch(trainer: FrameworkConfig) -> Option:
    """Return the option that sets what the SDK's trainers do not carry."""
    words = {"command": list(trainer.to_command()), "args": trainer.to_args()}
    about = {"labels": trainer.labels(), "annotations": trainer.annotations()}

    def fill(job: dict[str, Any], _trainer: object, backend: object) -> None:
        if not hasattr(backend, "custom_api"):
            raise ValueError(f"{type(backend).__name__} does not run a trainer of Muster; use the Kubernetes backend")
        launch = job.setdefault("spec", {}).setdefault("trainer", {})
        if launch:
            raise ValueError("options: command and args follow from the trainer; remove TrainerCommand and TrainerArgs")
        launch |= words
        metadata = job.setdefault("metadata", {})
        for member, own in about.items():
            if own:
                metadata[member] = {**decoding.member(metadata, member), **own}

    return fill


def _carrier(trainer: FrameworkConfig, runtime: types.Runtime) -> object:
    sdk = _types()
    resources = {key: str(value) for key, value in (trainer.resources_per_node or {}).items()}
    needs: dict[str, object] = {"num_nodes": trainer.num_nodes, "resources_per_node": resources or None}
    _refuse(trainer, "num_proc_per_node")
    if runtime.trainer.trainer_type != sdk.TrainerType.BUILTIN_TRAINER:
        # The SDK sends no image that is empty. The runtime's own, sent, would be judged as one of unknown versions.
        return sdk.CustomTrainerContainer(image="", env=dict(trainer.env) or None, **needs)
    _refuse(trainer, "env")
    return sdk.BuiltinTrainer(config=sdk.TorchTuneConfig(**needs))


def _refuse(trainer: FrameworkConfig, member: str) -> None:
    if getattr(trainer, member):
        raise ValueError(
            f"{member}: kubeflow's SDK 0.5 does not send it with a {trainer.framework} job; leave it out, or use "
            "muster.kubeflow.submit(client, trainer.to_trainjob(...))"
        )


def _types() -> Any:  # a module, which not everybody has
    try:
        from kubeflow.trainer.types import types  # noqa: PLC0415  # 100 MB that not everybody has
    except ImportError as error:
        raise SDKMissingError(
            f"kubeflow's SDK cannot be imported ({error}); install it: pip install 'muster-admission[kubeflow]'"
        ) from error
    return types


def _named(client: TrainerClient, name: str) -> types.Runtime | None:
    """Return a runtime without a list, which fails where the SDK cannot read one of the cluster's runtimes."""
    try:
        return client.get_runtime(name)
    except RuntimeError:
        return None


def _document(runtime: types.Runtime) -> dict[str, Any]:
    metadata = {"name": runtime.name, "labels": {names.FRAMEWORK_LABEL: runtime.trainer.framework}}
    return {"kind": runtime.kind.value, "metadata": metadata}


def _warn(client: TrainerClient, name: str) -> None:
    for each in _warnings(client, name):
        warnings.warn(each, AdmissionWarning, stacklevel=3)


def _warnings(client: TrainerClient, name: str) -> Iterator[str]:
    """Yield the warnings in the answer to the creation of a job.

    kubernetes' ApiClient keeps its last answer. Another thread of this process may have replaced it.
    """
    custom = getattr(client.backend, "custom_api", None)
    if custom is None:
        return
    answer = custom.api_client.last_response
    if not _is_about(answer.data, name):
        yield f"{name}: the warnings could not be read, because the client was used by another thread"
        return
    for header in answer.getheaders().getlist("Warning"):
        yield _text(header)


def _is_about(body: str | bytes, name: str) -> bool:
    try:
        found = json.loads(body)
        return bool(found["kind"] == "TrainJob" and found["metadata"]["name"] == name)
    except (ValueError, KeyError, TypeError):
        return False


def _text(header: str) -> str:
    r"""Return the text of a Warning header: `299 - "text"`, in which a quote is `\"` (RFC 7234, 5.5)."""
    text = header.partition('"')[2].rpartition('"')[0]
    return text.replace('\\"', '"').replace("\\\\", "\\") or header


@contextlib.contextmanager
def _refusals_told() -> Iterator[None]:
    """Raise the API server's own message, which the SDK hides in the cause of its error."""
    try:
        yield
    except Exception as error:
        refused = _refusal(error)
        if refused is None:
            raise
        raise refused from error


def _refusal(error: BaseException | None) -> RefusedError | None:
    """Return what the API server answered (a Status of meta/v1), None when an error did not come from an answer."""
    while error is not None:
        try:
            status = json.loads(error.body)  # type: ignore[attr-defined]
            causes = decoding.items(decoding.member(status, "details"), "causes")
            return RefusedError(str(status["message"]), [f"{each['field']}: {each['message']}" for each in causes])
        except (AttributeError, KeyError, TypeError, ValueError):
            error = error.__cause__
    return None
