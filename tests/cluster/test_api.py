from __future__ import annotations

import datetime as dt
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes.aio.config import incluster_config

from muster.webhook.cluster import api as module
from muster.webhook.cluster import bodies, live, transports

PATIENCE = transports.Patience(1.0, 1.0)


async def listed(connection):
    async with connection.get("/api/v1/namespaces", {"limit": "1"}, PATIENCE) as response:
        return await bodies.read(await bodies.checked(response), 1000, "a page")


@pytest.fixture
async def connected():
    """Connect, and close at the end."""
    made = []

    async def connect(path=None):
        made.append(await live.connect(path))
        return made[-1]

    yield connect
    for each in made:
        await each.close()


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Neither a pod nor a home with a kubeconfig."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def pod(monkeypatch, tmp_path):
    """A pod's environment with a service account, whose token a test may rotate."""
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    for name, path in (("TOKEN", token), ("CERT", ca)):
        monkeypatch.setattr(incluster_config, f"SERVICE_{name}_FILENAME", str(path))
    return token, ca


async def test_a_request_says_who_asks_and_wants_an_unpacked_answer(server, connected, kubeconfig):
    await listed(await connected(kubeconfig(server.url, {"token": "t"})))
    headers = server.seen_headers[0]
    assert headers["Authorization"] == "Bearer t"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"] == "muster"


async def test_kubeconfig_of_the_environment_is_used_when_none_is_named(server, connected, kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(server.url)))
    assert await listed(await connected())


async def test_a_named_kubeconfig_wins_over_the_pods_service_account(server, connected, kubeconfig, pod):
    assert await listed(await connected(kubeconfig(server.url)))


async def test_refused_credentials_are_read_again_from_where_they_came(server, connected, kubeconfig, tmp_path):
    token = tmp_path / "token"
    token.write_text("first")
    connection = await connected(kubeconfig(server.url, {"tokenFile": str(token)}))
    server.tokens = {"second"}
    token.write_text("second")
    with pytest.raises(transports.RefusedError, match="HTTP 401"):
        await listed(connection)
    assert await listed(connection)


async def test_refused_credentials_are_not_read_again_with_each_refusal(
    server, connected, kubeconfig, tmp_path, monkeypatch
):
    connection = await connected(kubeconfig(server.url, {"token": "wrong"}))
    read = []
    load = module._load
    monkeypatch.setattr(module, "_load", lambda *args: read.append(args) or load(*args))
    server.tokens = {"right"}
    for _ in range(3):
        with pytest.raises(transports.RefusedError):
            await listed(connection)
    assert len(read) == 1


async def test_in_a_pod_the_service_account_is_used_and_its_token_file_read_again(pod, connected, self_signed):
    token, ca = pod
    ca.write_text(self_signed)
    connection = await connected()
    configuration = connection._configuration
    assert configuration.host == "https://10.0.0.1:443"
    assert (await configuration.auth_settings())["BearerToken"]["value"] == "bearer first"
    token.write_text("second")
    await connection._reload()
    assert (await configuration.auth_settings())["BearerToken"]["value"] == "bearer second"


async def test_a_pod_without_a_usable_service_account_is_an_error(pod):
    with pytest.raises(transports.NoClusterError, match="this pod has no usable service account"):
        await live.connect()


async def test_a_ca_that_is_no_certificate_is_an_error(pod):
    pod[1].write_text("not a certificate")
    with pytest.raises(transports.NoClusterError, match=r"certificates for https://10\.0\.0\.1:443 cannot be read"):
        await live.connect()


async def test_a_missing_kubeconfig_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(transports.NoClusterError, match=r"no kubeconfig at .*missing.*; name a kubeconfig file"):
        await live.connect(tmp_path / "missing")
    with pytest.raises(transports.NoClusterError, match=r"no kubeconfig at .*\.kube"):
        await live.connect()


@pytest.mark.parametrize("text", ["", "a: [", "[]", "current-context: x", "{}"])
async def test_a_wrong_kubeconfig_is_an_error_that_names_it(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(transports.NoClusterError, match=r"kubeconfig .*config cannot be used"):
        await live.connect(path)


async def test_no_server_at_all_is_an_error_of_the_transport(server, connected, kubeconfig):
    url = server.url
    connection = await connected(kubeconfig(url))
    await server.stop()
    with pytest.raises(transports.UnreachableError, match=f"no answer from {url}"):
        await listed(connection)


@pytest.fixture(scope="module")
def self_signed():
    """A certificate in PEM that says it is a CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


@pytest.mark.parametrize(
    ("context", "expected"),
    [(None, "team-a"), ("other", "team-b"), ("bare", "default"), ("none", "default")],
)
def test_the_namespace_is_that_of_the_context(tmp_path, context, expected):
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}},
        {"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "team-b"}},
        {"name": "bare", "context": {"cluster": "c", "user": "u"}},
    ]
    known = {
        "clusters": [{"name": "c", "cluster": {"server": "https://localhost:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    written = {"apiVersion": "v1", "kind": "Config", "current-context": "here", "contexts": contexts, **known}
    (tmp_path / "kubeconfig").write_text(json.dumps(written))
    assert live.namespace_of(tmp_path / "kubeconfig", context) == expected


def test_without_a_usable_kubeconfig_the_namespace_is_default(tmp_path):
    assert live.namespace_of(tmp_path / "none") == "default"
