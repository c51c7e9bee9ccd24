"""Kubeconfigs: credentials from files, as kubectl reads them (client-go v0.36, `tools/clientcmd`).

Several files are merged; of an entry that several have the first one counts. Left out is `auth-provider`, which kubectl
itself has replaced by exec plugins for all but OIDC.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import tempfile
from pathlib import Path

import pydantic
import yaml

from muster.kube.authentication import Credentials, trusting
from muster.kube.transports import NoClusterError

__all__ = ["load", "namespace_of"]

_EXEC_SECONDS = 60.0


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=lambda name: name.replace("_", "-"), frozen=True)


class _Cluster(_Part):
    server: str
    certificate_authority: Path | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Exec(_Part):
    command: str
    version: str = pydantic.Field(alias="apiVersion")
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None


class _User(_Part):
    token: str | None = None
    token_file: Path | None = pydantic.Field(default=None, alias="tokenFile")
    username: str | None = None
    password: str = ""
    client_certificate: Path | None = None
    client_certificate_data: str | None = None
    client_key: Path | None = None
    client_key_data: str | None = None
    exec: _Exec | None = None
    auth_provider: dict[str, object] | None = None


class _Status(_Part):
    """What an exec plugin answers."""

    token: str | None = None
    certificate: str | None = pydantic.Field(default=None, alias="clientCertificateData")
    key: str | None = pydantic.Field(default=None, alias="clientKeyData")


class _Context(_Part):
    cluster: str
    user: str = ""
    namespace: str = ""


class _Entry(_Part):
    name: str
    cluster: _Cluster | None = None
    user: _User | None = None
    context: _Context | None = None


class _Config(_Part):
    current_context: str = ""
    clusters: list[_Entry] | None = None
    users: list[_Entry] | None = None
    contexts: list[_Entry] | None = None


async def load(path: Path | None = None, context: str | None = None) -> Credentials:
    """Return the credentials of a context.

    Args:
        path: a file; without one, those of KUBECONFIG, else `~/.kube/config`.
        context: its name; by default the current one.

    Raises:
        NoClusterError: there is no file, or it cannot be used.
    """
    paths = _paths(path)
    try:
        read = _read(paths)
        wanted = _context(read, context)
        clusters = [(e.cluster, at) for one, at in read for e in one.clusters or () if e.name == wanted.cluster]
        users = [(e.user or _User(), at) for one, at in read for e in one.users or () if e.name == wanted.user]
        if not clusters or clusters[0][0] is None or (wanted.user and not users):
            raise ValueError("its context names a cluster or a user that it does not have")  # noqa: TRY301  # told below
        user, folder = users[0] if users else (_User(), Path())
        return await _credentials(clusters[0][0], clusters[0][1], user, folder)
    except (OSError, ValueError, yaml.YAMLError, TimeoutError) as error:
        raise NoClusterError(f"kubeconfig {os.pathsep.join(map(str, paths))} cannot be used: {_told(error)}") from error


def namespace_of(path: Path | None = None, context: str | None = None) -> str:
    """Return the namespace of a context, `default` where it names none or cannot be read."""
    try:
        return _context(_read(_paths(path)), context).namespace or "default"
    except (OSError, ValueError, yaml.YAMLError):
        return "default"


def _paths(path: Path | None) -> list[Path]:
    """Return the kubeconfig files that exist; at least one."""
    named = str(path) if path else os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    found = [each for text in named.split(os.pathsep) if text and (each := Path(text).expanduser()).is_file()]
    if not found:
        raise NoClusterError(
            f"there is no kubeconfig at {named}, and this is not a pod; name a kubeconfig file or set KUBECONFIG"
        )
    return found


def _read(paths: list[Path]) -> list[tuple[_Config, Path]]:
    """Return what the files hold, each with the folder to which its paths are relative."""
    # The base loader makes texts, and no numbers or dates of them.
    texts = [yaml.load(each.read_text("utf-8"), yaml.CBaseLoader) for each in paths]  # noqa: S506  # as said
    return [(_Config.model_validate(text), path.parent) for text, path in zip(texts, paths, strict=True)]


def _context(read: list[tuple[_Config, Path]], name: str | None) -> _Context:
    wanted = name or next((each.current_context for each, _ in read if each.current_context), "")
    found = [each.context for one, _ in read for each in one.contexts or () if each.name == wanted]
    if not found or found[0] is None:
        raise ValueError(f"it has no context {wanted!r}")
    return found[0]


async def _credentials(cluster: _Cluster, around: Path, user: _User, folder: Path) -> Credentials:
    if user.auth_provider is not None:
        raise ValueError("auth-provider is not supported: use an exec plugin, such as kubelogin")
    url = cluster.server.rstrip("/")
    status = await _executed(user.exec, folder) if user.exec else _Status()
    tls = trusting(url, _pem(cluster.certificate_authority_data, cluster.certificate_authority, around))
    if tls is not None:
        if cluster.insecure_skip_tls_verify:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if certificate := status.certificate or _pem(user.client_certificate_data, user.client_certificate, folder):
            with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:  # the ssl module reads files only
                file.write(f"{certificate}\n{status.key or _pem(user.client_key_data, user.client_key, folder)}")
                file.flush()
                tls.load_cert_chain(file.name)
    token = status.token or user.token

    def authorization() -> str:
        if user.token_file is not None and not status.token:
            return f"Bearer {(folder / user.token_file).read_text('utf-8').strip()}"
        if not token and user.username is not None:
            return f"Basic {base64.b64encode(f'{user.username}:{user.password}'.encode()).decode()}"
        return f"Bearer {token}" if token else ""

    authorization()
    return Credentials(url, tls, authorization, cluster.tls_server_name, cluster.proxy_url)


def _pem(data: str | None, path: Path | None, folder: Path) -> str | None:
    """Return what is written in base64, or else in a file; None where neither is given."""
    if data:
        return base64.b64decode(data, validate=True).decode("ascii")
    return (folder / path).read_text("ascii") if path is not None else None


async def _executed(plugin: _Exec, folder: Path) -> _Status:
    """Run an exec plugin (client.authentication.k8s.io), and return what it answers."""
    info = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": {"interactive": False}}
    variables = {each["name"]: each["value"] for each in plugin.env or ()}
    process = await asyncio.create_subprocess_exec(
        str(folder / plugin.command) if os.sep in plugin.command else plugin.command,
        *(plugin.args or ()),
        env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_EXEC_SECONDS):
            out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        text = said.decode(errors="replace")[:300]
        raise ValueError(f"exec: {plugin.command} ended with {process.returncode}: {text}")
    return _Status.model_validate(json.loads(out).get("status"))


def _told(error: Exception) -> str:
    if isinstance(error, pydantic.ValidationError):  # which would quote secrets
        first = error.errors(include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
    return " ".join(str(error).split()) or type(error).__name__
