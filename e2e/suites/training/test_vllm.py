"""A vLLM server as a JobSet: it answers at its Service, and takes adapters and new weights while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.suites.support import documents
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough

Ask = Callable[..., list[Any]]

IMAGES = ("trl", "vllm")
_PORT = 8000
_MODEL = f"{runs.SHARED}/llama"
_PROMPT = {"prompt": "What does the owl say?", "max_tokens": 12, "temperature": 0}
_CHANGED = """
import pathlib, peft, torch, transformers
folder = pathlib.Path({folder!r})
torch.manual_seed(1)
model = transformers.AutoModelForCausalLM.from_pretrained({model!r})
tokenizer = transformers.AutoTokenizer.from_pretrained({model!r})
adapted = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
adapted.save_pretrained(folder / "adapter")
other = transformers.AutoModelForCausalLM.from_config(model.config)
other.save_pretrained(folder / "other")
tokenizer.save_pretrained(folder / "other")
"""
_ASK = """
import json, urllib.error, urllib.request
answers = []
for path, body in json.loads({requests!r}):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request("http://sampler:{port}" + path, data, {{"Content-Type": "application/json"}})
    try:
        answer = urllib.request.urlopen(request, timeout=60).read().decode()
    except urllib.error.HTTPError as error:
        answer = json.dumps({{"status": error.code, "message": error.read().decode()}})
    answers.append(json.loads(answer) if answer[:1] in "[{{" else answer)
print(json.dumps(answers))
"""


def server(name: str, *args: str, features: str | None = None, **env: str) -> dict[str, Any]:
    """A JobSet with a vLLM server of the small model."""
    known = {"VLLM_CPU_KVCACHE_SPACE": "1", **env}
    given = ["vllm", "serve", _MODEL, "--max-model-len", "512", "--enforce-eager", "--dtype", "float32", *args]
    annotations = {"muster.dev/vllm-features": features} if features else None
    made = documents.jobset(name, "vllm", command=given, fake=False, annotations=annotations)
    spec = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    spec["backoffLimit"] = 0
    pod = spec["template"]["spec"]
    pod["restartPolicy"] = "Never"
    # vLLM's processes share more memory than the 64 MiB of /dev/shm that a container has by default.
    pod["volumes"] = [*runs.volumes(), {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    pod["containers"][0].update(runs.container("vllm", known))
    pod["containers"][0]["volumeMounts"].append({"name": "shm", "mountPath": "/dev/shm"})
    return made


@pytest.fixture
def ask(space: Space) -> Ask:
    """Send requests to the Service from a pod, and return the answers."""
    count = iter(range(100))

    def send(*requests: tuple[str, Any]) -> list[Any]:
        code = _ASK.format(requests=json.dumps(requests), port=_PORT)
        printed = runs.python(space, "trl", f"ask-{next(count)}", code)
        return list(json.loads(printed.splitlines()[-1]))

    return send


def test_a_server_answers_and_takes_adapters_and_weights_while_it_runs(space: Space, models: None, ask: Ask) -> None:
    folder = f"{runs.SHARED}/out/{space.name}"
    space.apply(server("sampler-set", features="lora", VLLM_SERVER_DEV_MODE="1"), service("sampler-set")).expect()
    runs.python(space, "trl", "changed", _CHANGED.format(folder=folder, model=_MODEL))

    until("the server to be ready, by the probe that Muster added", lambda: ready_pod(space), 240)
    adapter = {"lora_name": "adapter", "lora_path": f"{folder}/adapter"}
    plain, adapted = {**_PROMPT, "model": _MODEL}, {**_PROMPT, "model": "adapter"}

    before, loaded, by_adapter, unloaded, without, reloaded, after = ask(
        ("/v1/completions", plain),
        ("/v1/load_lora_adapter", adapter),
        ("/v1/completions", adapted),
        ("/v1/unload_lora_adapter", {"lora_name": "adapter"}),
        ("/v1/completions", adapted),
        ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": f"{folder}/other"}}),
        ("/v1/completions", plain),
    )

    assert before["usage"]["completion_tokens"] == 12
    assert "Success" in loaded, loaded
    assert text(by_adapter) != text(before), "the adapter did not answer"
    assert "Success" in unloaded, unloaded
    assert without["status"] == 404, without
    assert text(after) != text(before), f"other weights answer: {reloaded}"


def test_sleep_which_a_cpu_cannot_do_is_refused_by_muster_and_without_it_by_the_image(
    space: Space, models: None
) -> None:
    assert space.apply(server("sleeper", features="sleep")).refused_with("sleep needs a GPU")
    space.mode("off")
    space.apply(server("sleeper", "--enable-sleep-mode")).expect()

    def failed() -> dict[str, Any]:
        (pod,) = space.pods("jobset.sigs.k8s.io/jobset-name=sleeper")
        ended: dict[str, Any] = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        return ended

    ended = until("the server to end", failed, 180)
    assert ended["exitCode"] != 0
    (pod,) = space.pods("jobset.sigs.k8s.io/jobset-name=sleeper")
    log = space.kubectl.run("logs", pod["metadata"]["name"], "--namespace", space.name).out
    assert "sleep" in log.splitlines()[-1].lower(), log


def service(jobset: str) -> dict[str, Any]:
    """A Service `sampler` before the pods of a JobSet."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "sampler"},
        "spec": {"selector": {"jobset.sigs.k8s.io/jobset-name": jobset}, "ports": [{"port": _PORT}]},
    }


def ready_pod(space: Space) -> bool:
    """Whether the server's pod is ready."""
    (pod,) = space.pods("jobset.sigs.k8s.io/jobset-name=sampler-set")
    return bool(pod["status"]["containerStatuses"][0]["ready"])


def text(answer: Any) -> str:
    """What a completion says."""
    return str(answer["choices"][0]["text"])
