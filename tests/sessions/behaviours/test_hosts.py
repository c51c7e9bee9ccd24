"""Nothing leaves this machine: each address that the Gateway and its engines connect to is noted by an audit hook."""

from __future__ import annotations

import os

import pytest
import tinker
from tinker import types

from tests.sessions.gateways import ROOT, Torch
from tests.sessions.hand import datum

_HOOK = """
import os, sys

def _note(event, arguments):
    if event in {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"}:
        with open(os.environ["NOTED"], "a") as file:
            file.write(f"{event} {arguments[-1] if event == 'socket.connect' else arguments[0]!r}\\n")

sys.addaudithook(_note)
with open(os.environ["NOTED"], "a") as file:
    file.write(f"began {sys.orig_argv[1:4]}\\n")
"""


@pytest.mark.thorough
def test_a_gateway_and_its_engines_connect_to_their_own_sockets_only(tmp_path, monkeypatch):
    noted = tmp_path / "noted"
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(_HOOK)
    monkeypatch.setenv("NOTED", str(noted))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'hook'}{os.pathsep}{ROOT}")
    monkeypatch.setenv("TINKER_TELEMETRY", "1")
    with Torch(tmp_path / "gateway") as gateway:
        service = tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key)
        with service:
            client = service.create_lora_training_client(str(gateway.base), rank=4).result()
            client.forward_backward([datum([20, 21, 22])], "cross_entropy").result()
            client.optim_step(types.AdamParams()).result()
            sampler = client.save_weights_and_get_sampling_client().result()
            sampler.compute_logprobs(types.ModelInput.from_ints([20, 21])).result()
    lines = noted.read_text().splitlines()
    assert sum("muster.sessions.engines.process" in each for each in lines if each.startswith("began")) == 2
    connected = [each.split(" ", 1)[1] for each in lines if not each.startswith("began")]
    assert connected
    assert [each for each in connected if str(tmp_path) not in each] == []
