from __future__ import annotations

import base64
import datetime as dt
import json
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster.kube import authentication, clients, kubeconfigs, payloads, transports

PATIENCE = transports.Patience(1.0, 1.0)


async def listed(connection):
    async with connection.get("/api/v1/namespaces", {"limit": "1"}, PATIENCE) as response:
        return await payloads.read(await payloads.checked(response), 1000, "a page")


@pytest.fixture
async def connected():
    """Connect, and close at the end."""
    made = []

    async def connect(path=None):
        made.append(await clients.connect(path))
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
    monkeypatch.setattr(authentication, "ACCOUNT", tmp_path)
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


async def test_a_token_file_is_read_for_each_request(server, connected, kubeconfig, tmp_path):
    token = tmp_path / "token"
    token.write_text("first")
    connection = await connected(kubeconfig(server.url, {"tokenFile": "token"}))
    server.tokens = {"second"}
    token.write_text("second\n")
    assert await listed(connection)


async def test_refused_credentials_are_read_again_from_where_they_came(server, connected, kubeconfig):
    connection = await connected(kubeconfig(server.url, {"token": "first"}))
    server.tokens = {"second"}
    kubeconfig(server.url, {"token": "second"})
    with pytest.raises(transports.RefusedError, match="HTTP 401"):
        await listed(connection)
    assert await listed(connection)


async def test_refused_credentials_are_not_read_again_with_each_refusal(server, connected, kubeconfig, monkeypatch):
    connection = await connected(kubeconfig(server.url, {"token": "wrong"}))
    read = []
    load = kubeconfigs.load
    monkeypatch.setattr(kubeconfigs, "load", lambda *args: read.append(args) or load(*args))
    server.tokens = {"right"}
    for _ in range(3):
        with pytest.raises(transports.RefusedError):
            await listed(connection)
    assert len(read) == 1


async def test_an_exec_plugin_says_the_token_again_when_it_is_refused(server, connected, kubeconfig, tmp_path):
    plugin = tmp_path / "plugin"
    plugin.write_text(
        '#!/bin/sh\necho x >> "$CALLS"\n'
        'echo "{\\"kind\\": \\"ExecCredential\\", \\"status\\": {\\"token\\": \\"$1$(wc -l < "$CALLS")\\"}}"\n'
    )
    plugin.chmod(0o755)
    calls = tmp_path / "calls"
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",  # relative to the kubeconfig
            "args": ["token-"],
            "env": [{"name": "CALLS", "value": str(calls)}],
        }
    }
    server.tokens = {"token-2"}
    connection = await connected(kubeconfig(server.url, user))
    with pytest.raises(transports.RefusedError, match="HTTP 401"):
        await listed(connection)
    assert await listed(connection)
    assert calls.read_text() == "x\nx\n"


async def test_an_exec_plugin_that_fails_is_an_error_with_what_it_said(server, kubeconfig):
    user = {"exec": {"apiVersion": "v1", "command": "sh", "args": ["-c", "echo no login >&2; exit 3"]}}
    with pytest.raises(transports.NoClusterError, match="exec: sh ended with 3: no login"):
        await clients.connect(kubeconfig(server.url, user))


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"username": "ada", "password": "b"}, "Basic YWRhOmI="),
        ({"token": "2026-11-28"}, "Bearer 2026-11-28"),
        ({}, ""),
    ],
)
async def test_who_asks_is_told_as_the_kubeconfig_says(server, kubeconfig, user, header):
    assert (await kubeconfigs.load(kubeconfig(server.url, user))).authorization() == header


async def test_of_several_kubeconfigs_the_first_entry_of_a_name_counts(tmp_path, monkeypatch):
    def written(name, host, **more):
        cluster = {"name": "c", "cluster": {"server": f"http://{host}/"}}
        (tmp_path / name).write_text(json.dumps({"clusters": [cluster], **more}))
        return str(tmp_path / name)

    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    paths = [written("a", "one"), written("b", "two", contexts=[context], users=users), str(tmp_path / "missing")]
    monkeypatch.setenv("KUBECONFIG", ":".join(paths))
    found = await kubeconfigs.load(context="x")
    assert (found.url, found.tls, found.authorization()) == ("http://one", None, "Bearer t")


async def test_a_clients_certificate_is_shown_and_a_server_can_be_left_unproved(kubeconfig, self_signed):
    certificate, key = ("".join(base64.b64encode(each.encode()).decode()) for each in self_signed)
    path = kubeconfig("https://localhost:1", {"client-certificate-data": certificate, "client-key-data": key})
    document = json.loads(path.read_text())
    document["clusters"][0]["cluster"] |= {"certificate-authority-data": certificate, "tls-server-name": "kube"}
    path.write_text(json.dumps(document))
    found = await kubeconfigs.load(path)
    assert (found.server_name, found.tls.verify_mode) == ("kube", ssl.CERT_REQUIRED)
    assert len(found.tls.get_ca_certs()) == 1
    document["clusters"][0]["cluster"] |= {"insecure-skip-tls-verify": True}
    document["users"][0]["user"]["client-key-data"] = certificate
    path.write_text(json.dumps(document))
    with pytest.raises(transports.NoClusterError, match="cannot be used"):
        await kubeconfigs.load(path)


async def test_in_a_pod_the_service_account_is_used_and_its_token_file_read_again(pod, connected, self_signed):
    token, ca = pod
    ca.write_text(self_signed[0])
    await connected()
    found = authentication.in_cluster()
    assert (found.url, found.authorization()) == ("https://10.0.0.1:443", "Bearer first")
    token.write_text("second")
    assert found.authorization() == "Bearer second"


async def test_a_pod_without_a_usable_service_account_is_an_error(pod):
    with pytest.raises(transports.NoClusterError, match="this pod has no usable service account"):
        await clients.connect()


async def test_a_ca_that_is_no_certificate_is_an_error(pod):
    pod[1].write_text("not a certificate")
    with pytest.raises(transports.NoClusterError, match=r"certificates for https://10\.0\.0\.1:443 cannot be read"):
        await clients.connect()


async def test_a_missing_kubeconfig_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(transports.NoClusterError, match=r"no kubeconfig at .*missing.*; name a kubeconfig file"):
        await clients.connect(tmp_path / "missing")
    with pytest.raises(transports.NoClusterError, match=r"no kubeconfig at .*\.kube"):
        await clients.connect()


@pytest.mark.parametrize("text", ["", "a: [", "[]", "current-context: x", "{}"])
async def test_a_wrong_kubeconfig_is_an_error_that_names_it(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(transports.NoClusterError, match=r"kubeconfig .*config cannot be used"):
        await clients.connect(path)


async def test_no_server_at_all_is_an_error_of_the_transport(server, connected, kubeconfig):
    url = server.url
    connection = await connected(kubeconfig(url))
    await server.stop()
    with pytest.raises(transports.UnreachableError, match=f"no answer from {url}"):
        await listed(connection)


@pytest.fixture(scope="module")
def self_signed():
    """A certificate in PEM that says it is a CA, and its key."""
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
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), key.private_bytes(*form).decode()


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
    assert clients.namespace_of(tmp_path / "kubeconfig", context) == expected


def test_without_a_usable_kubeconfig_the_namespace_is_default(tmp_path):
    assert clients.namespace_of(tmp_path / "none") == "default"
