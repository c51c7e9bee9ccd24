"""Sends jobs that are warned about and refused, and prints what the person sees: `answers.py KUBECONFIG NAMESPACE`."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainerContainer, TrainerClient
from kubeflow.trainer.options import Name, TrainerArgs, TrainerCommand

import muster
from muster import kubeflow

SLOW = muster.TRLTrainer(model="m", dataset="d", num_nodes=2, resources_per_node={"cpu": 1})
WRONG = muster.TRLTrainer(model="m", dataset="d", resources_per_node={"gpu": 1}, arguments={"sead": 1})


def main() -> None:
    """Meet a warning and a refusal, by our function and by the SDK's own."""
    config, namespace = sys.argv[1:]
    client = TrainerClient(KubernetesBackendConfig(config_file=config, namespace=namespace))
    print(json.dumps({"warned": warned(client), "script": script(client), "refused": refused(client)}))


def warned(client: TrainerClient) -> list[str]:
    """Return the warnings about a job of ours."""
    return shown(client, SLOW, runtime="own-trl", options=[Name("slow")])


def script(client: TrainerClient) -> list[str]:
    """Return the warnings about a job that is the SDK's own business."""
    container = CustomTrainerContainer(image="muster.test/none:0", num_nodes=2, resources_per_node={"gpu": 1})
    options = [Name("script"), TrainerCommand(["bash", "-c"]), TrainerArgs(["echo train"])]
    return shown(client, container, runtime="own-trl", options=options)


def shown(client: TrainerClient, trainer: Any, **more: Any) -> list[str]:
    """Train, and return what is warned."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        name = kubeflow.train(client, trainer, **more)
    client.delete_job(name)
    return [f"{each.category.__name__}: {each.message}" for each in seen]


def refused(client: TrainerClient) -> dict[str, str]:
    """Return what is raised for a job that is refused."""
    found = {}
    try:
        kubeflow.train(client, WRONG, runtime="own-trl")
    except kubeflow.RefusedError as error:
        found["ours"], found["causes"] = str(error), "; ".join(error.causes)
    try:
        client.train(**WRONG.to_kubeflow(client.get_runtime("own-trl")))
    except RuntimeError as error:
        found["sdk"], found["cause"] = str(error), str(error.__cause__)
    return found | {"left": ", ".join(each.name for each in client.list_jobs())}


main()
