"""Trains by TrainerClient, as a person does in a notebook, and prints what it met: `life.py KUBECONFIG NAMESPACE`."""

from __future__ import annotations

import io
import json
import sys
import warnings
from typing import Any

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import TrainerClient
from kubeflow.trainer.options import Annotations, Labels, Name

import muster
from muster import kubeflow
from muster.webhook.cluster import events

TRL = muster.TRLTrainer(
    model="Qwen/Qwen2.5-0.5B",
    dataset="trl-lib/Capybara",
    lora=muster.LoRA(r=16, target_modules=["q_proj", "v_proj"]),
    num_nodes=2,
    resources_per_node={"cpu": 1, "memory": "64Mi", "gpu": 1},
    env={"HF_HOME": "/workspace/hf"},
    role="trainer",
    arguments={"packing": True},
)
TUNED = muster.TorchTuneTrainer(
    dtype="bf16", batch_size=2, epochs=1, num_nodes=1, resources_per_node={"gpu": 2}, arguments={"optimizer.lr": 2e-5}
)


def main() -> None:
    """Lead a job of each framework from its creation to its deletion."""
    config, namespace = sys.argv[1:]
    client = TrainerClient(KubernetesBackendConfig(config_file=config, namespace=namespace))
    found = {
        "choices": chosen(client),
        "trl": life(client, TRL, "own-trl", "sft"),
        "torchtune": life(client, TUNED, None, "tuned"),
        "submitted": submitted(client),
    }
    print(json.dumps(found))


def chosen(client: TrainerClient) -> dict[str, str]:
    """Say which runtimes are found, and what is said where several fit, or the named one is of another framework."""
    told = {"torchtune": ""}
    for framework, name in (("trl", None), ("torchtune", "own-trl"), ("trl", "nobody"), ("axolotl", None)):
        try:
            kubeflow.choose_runtime(client, framework, name)
        except muster.RuntimeChoiceError as error:
            told[f"{framework}/{name}"] = str(error)
    runtime = kubeflow.choose_runtime(client, "trl", "own-trl")
    return told | {"kind": runtime.kind.value, "name": runtime.name}


def life(client: TrainerClient, trainer: muster.ConfigTrainer, runtime: str | None, name: str) -> dict[str, Any]:
    """Create, wait, look, and delete."""
    chosen = kubeflow.choose_runtime(client, trainer.framework, runtime or "torchtune-llama3.2-1b")
    options = [Name(name), Labels({"team": "a"}), Annotations({"example.org/note": "n"})]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", kubeflow.AdmissionWarning)
        made = client.train(**trainer.to_kubeflow(chosen, options))
    stored = document(client, made)
    say(client, made)
    lines = io.StringIO()
    ended = client.wait_for_job_status(made, timeout=240, polling_interval=1, callbacks=[kubeflow.Progress(lines)])
    found = {
        "name": made,
        "warnings": [str(each.message) for each in seen],
        "stored": stored,
        "wanted": trainer.to_trainjob(name, runtime={"kind": chosen.kind.value, "metadata": runtime_metadata(chosen)}),
        "status": ended.status,
        "framework": client.get_job(made).runtime.trainer.framework,
        "steps": sorted((each.name, each.status) for each in client.get_job(made).steps),
        "events": sorted({f"{each.involved_object_kind} {each.reason}" for each in client.get_job_events(made)}),
        "listed": [each.name for each in client.list_jobs()],
        "lines": lines.getvalue().splitlines(),
    }
    client.delete_job(made)
    return found | {"left": [each.name for each in client.list_jobs()]}


def say(client: TrainerClient, name: str) -> None:
    """Write an Event as Muster does about a job that it refused before one of the same name was right."""
    about = events.Regarding("trainer.kubeflow.org/v1alpha1", "TrainJob", client.backend.namespace, name, "")
    document = events.document(about, "MusterDenied", "refused for admin: x", "Warning", "admission")
    client.backend.core_api.create_namespaced_event(client.backend.namespace, document)


def submitted(client: TrainerClient) -> dict[str, Any]:
    """Send what the SDK cannot: the processes of a node."""
    trainer = muster.TRLTrainer(model="m", dataset="d", num_nodes=1, num_proc_per_node=2, resources_per_node={"gpu": 2})
    runtime = kubeflow.choose_runtime(client, "trl", "own-trl")
    try:
        trainer.to_kubeflow(runtime)
    except ValueError as error:
        told = str(error)
    whole = {"kind": runtime.kind.value, "metadata": runtime_metadata(runtime)}
    made = kubeflow.submit(client, trainer.to_trainjob("whole", runtime=whole))
    stored = document(client, made)
    client.delete_job(made)
    return {"told": told, "processes": stored["spec"]["trainer"]["numProcPerNode"]}


def runtime_metadata(runtime: Any) -> dict[str, Any]:
    """Return the metadata of a runtime as `to_trainjob` reads it."""
    return {"name": runtime.name, "labels": {"trainer.kubeflow.org/framework": runtime.trainer.framework}}


def document(client: TrainerClient, name: str) -> Any:
    """Return a TrainJob as it is stored."""
    return client.backend.custom_api.get_namespaced_custom_object(
        "trainer.kubeflow.org", "v1alpha1", client.backend.namespace, "trainjobs", name
    )


main()
