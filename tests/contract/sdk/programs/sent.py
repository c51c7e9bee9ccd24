"""Sends drawn trainers by kubeflow's SDK to a server that keeps what it gets; prints where that is not to_trainjob's.

The server answers each creation as an API server does: the document, with two warnings, or for the job "refused" a
Status.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import TrainerClient
from kubeflow.trainer.options import Name
from kubeflow.trainer.types import types
from kubernetes.client import Configuration

import muster
from muster import kubeflow

WARNINGS = ['299 - "first, with \\"quotes\\" and a comma"', '299 - "second"']
STATUS = {
    "kind": "Status",
    "message": "denied the request",
    "details": {"causes": [{"field": "spec.x", "message": "wrong (muster core/x)"}]},
}


class Server(BaseHTTPRequestHandler):
    """The API server, as far as `train` asks it."""

    def do_GET(self) -> None:
        self.answer(404, {"kind": "Status", "message": "not found"})

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if document["metadata"]["name"] == "refused":
            self.answer(403, STATUS)
        else:
            self.answer(201, document, WARNINGS)

    def answer(self, code: int, document: Any, told: list[str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        for each in told or ():
            self.send_header("Warning", each)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def drawn(chance: random.Random) -> muster.ConfigTrainer:
    """Draw a trainer with what the SDK sends."""
    resources = [
        None,
        {"gpu": 1},
        {"GPU": 4, "Memory": "64Gi"},
        {"cpu": "500m"},
        {"mig-1g.5gb": 2},
        {"example.com/NPU": 1},
    ]
    needs: dict[str, Any] = {
        "num_nodes": chance.choice([None, 1, 2]),
        "resources_per_node": chance.choice(resources),
        "role": chance.choice([None, "trainer", "sampler"]),
        "claim_profile": chance.choice([None, "seat"]),
        "resource_claims": chance.choice([None, [{"name": "gpu", "resourceClaimTemplateName": "t"}]]),
    }
    if chance.random() < 0.5:
        return muster.TorchTuneTrainer(
            dtype=chance.choice([None, "bf16"]),
            epochs=chance.choice([None, 3]),
            peft_config=chance.choice([None, muster.LoraConfig(lora_rank=8, quantize_base=True)]),
            arguments=chance.choice([None, {"optimizer.lr": 2e-5, "seed": 1}]),
            **needs,
        )
    return muster.TRLTrainer(
        method=chance.choice(["sft", "dpo", "grpo"]),
        model=chance.choice(["m", "org/model", "$(MODEL)", "a b", "ü", ""]),
        dataset="d",
        lora=chance.choice([None, muster.LoRA(r=1, target_modules=["q_proj", "v_proj"])]),
        env=chance.choice([{}, {"HF_HOME": "/x", "EMPTY": ""}]),
        arguments=chance.choice([{}, {"packing": True}, {"model_init_kwargs": {"a": [1]}}]),
        **needs,
    )


def runtime_of(trainer: muster.ConfigTrainer, kind: types.RuntimeKind) -> types.Runtime:
    """Return a runtime as the SDK reads it from a cluster."""
    tuned = trainer.framework == "torchtune"
    carrier = types.TrainerType.BUILTIN_TRAINER if tuned else types.TrainerType.CUSTOM_TRAINER
    found = types.RuntimeTrainer(trainer_type=carrier, framework=trainer.framework, image="image:1")
    found.set_command(("tune", "run") if tuned else ("bash", "-c"))
    return types.Runtime(name="runtime", trainer=found, kind=kind)


def compared(client: TrainerClient, count: int) -> list[Any]:
    """Return the pairs of documents, sent and wanted, that differ."""
    chance, different = random.Random(0), []  # noqa: S311  # no secret: the same trainers each time
    for _ in range(count):
        trainer = drawn(chance)
        runtime = runtime_of(trainer, chance.choice(list(types.RuntimeKind)))
        client.train(**trainer.to_kubeflow(runtime, [Name("job")]))
        sent = json.loads(client.backend.custom_api.api_client.last_response.data)
        labels = {"trainer.kubeflow.org/framework": trainer.framework}
        document = {"kind": runtime.kind.value, "metadata": {"name": runtime.name, "labels": labels}}
        wanted = trainer.to_trainjob("job", runtime=document)
        wanted["spec"]["runtimeRef"]["kind"] = runtime.kind.value
        if sent != wanted:
            different.append([sent, wanted])
    return different


def built(client: TrainerClient) -> dict[str, Any]:
    """Return what is sent of a BuiltinTrainer whose config is ours, as KEP-2839 writes it."""
    config = muster.TRLConfig(method=muster.TRLSFTConfig(packing=True), model_name_or_path="m", num_nodes=2)
    runtime = runtime_of(config, types.RuntimeKind.CLUSTER_TRAINING_RUNTIME)
    kubeflow.train(client, types.BuiltinTrainer(config=config), runtime=runtime, options=[Name("built")])
    sent = json.loads(client.backend.custom_api.api_client.last_response.data)["spec"]["trainer"]
    return {"sent": sent, "wanted": config.to_trainjob("built", runtime="r")["spec"]["trainer"]}


def told(client: TrainerClient) -> dict[str, Any]:
    """Return what is said about a job that is warned about, and about one that is refused."""
    trainer = muster.TRLTrainer(model="m")
    runtime = runtime_of(trainer, types.RuntimeKind.CLUSTER_TRAINING_RUNTIME)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", kubeflow.AdmissionWarning)
        kubeflow.train(client, trainer, runtime=runtime)
    found: dict[str, Any] = {"warnings": [str(each.message) for each in seen]}
    try:
        kubeflow.train(client, trainer, runtime=runtime, options=[Name("refused")])
    except kubeflow.RefusedError as error:
        found |= {"refused": str(error), "causes": error.causes}
    return found


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = Configuration(host=f"http://127.0.0.1:{server.server_address[1]}")
sdk = TrainerClient(KubernetesBackendConfig(namespace="team", client_configuration=address))
count = int(sys.argv[1])
print(json.dumps({"different": compared(sdk, count), "count": count, "built": built(sdk), **told(sdk)}))
server.shutdown()
