"""Probes that a job brings for its vLLM server: they have to ask what the server answers."""

from __future__ import annotations

import pytest

from tests.jobsets.sets import container, decided, jobset, part

KEY = {"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "key"}}}


def found(get, *flags, kind="httpGet", beside=(), **more):
    server = container("vllm", "serve", "m", *flags, name="vllm", gpus=1, readinessProbe={kind: get}, **more)
    document = jobset(part("server", server, *beside), framework="vllm")
    return [each.message for each in decided(document)[1] if each.rule == "vllm/probes"]


DEAD = {
    "the default port, and the server has another": ({"path": "/health", "port": 8000}, ("--port", "9000")),
    "another port than the default": ({"path": "/health", "port": 8080}, ()),
    "the name of a port that the container has not": ({"path": "/health", "port": "http"}, ()),
    "a server behind a socket": ({"path": "/health", "port": 8000}, ("--uds", "/tmp/vllm.sock")),
    "HTTP of a server with TLS": (
        {"path": "/health", "port": 8000},
        ("--ssl-keyfile", "/tls/key", "--ssl-certfile", "/tls/crt"),
    ),
    "TLS of a server with HTTP": ({"path": "/health", "port": 8000, "scheme": "HTTPS"}, ()),
    "a path behind the key": ({"path": "/v1/models", "port": 8000}, ("--api-key", "secret")),
}


@pytest.mark.parametrize(("get", "flags"), DEAD.values(), ids=DEAD)
def test_a_probe_that_the_server_never_answers_is_told(get, flags):
    (message,) = found(get, *flags)
    assert "never succeeds" in message


def test_a_key_in_the_env_guards_as_well():
    assert found({"path": "/v1/models", "port": 8000}, env=[KEY])


def test_a_tcp_probe_of_another_port_is_told():
    assert found({"port": 9000}, kind="tcpSocket")


ALIVE = {
    "the default port": ({"path": "/health", "port": 8000}, (), {}),
    "the port of a flag": ({"path": "/health", "port": 9000}, ("--port", "9000"), {}),
    "the name of a port": (
        {"path": "/health", "port": "http"},
        ("--port=9000",),
        {"ports": [{"name": "http", "containerPort": 9000}]},
    ),
    "a port that only the pod knows": ({"path": "/health", "port": 8000}, ("--port", "$(PORT)"), {}),
    "a file of settings": ({"path": "/health", "port": 9000}, ("--config", "/etc/vllm.yaml"), {}),
    "another host": ({"path": "/health", "port": 9000, "host": "10.0.0.1"}, (), {}),
    "health with a key": ({"path": "/health", "port": 8000}, ("--api-key", "secret"), {}),
    "a path behind the key, with the key": (
        {"path": "/v1/models", "port": 8000, "httpHeaders": [{"name": "Authorization", "value": "Bearer secret"}]},
        ("--api-key", "secret"),
        {},
    ),
    "a sidecar that may listen there": ({"path": "/ready", "port": 9000}, (), {"beside": [container(name="proxy")]}),
}


@pytest.mark.parametrize(("get", "flags", "more"), ALIVE.values(), ids=ALIVE)
def test_a_probe_that_may_succeed_is_silent(get, flags, more):
    assert found(get, *flags, **more) == []
