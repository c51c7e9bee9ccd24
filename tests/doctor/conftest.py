"""The doctor at work on a world of the test's making."""

from __future__ import annotations

import contextlib
import json

import pytest

from muster.kube import clients
from muster.webhook.cli.main import main
from muster.webhook.doctor import examination
from muster.webhook.doctor.live_installation import Installation, Options
from tests.doctor import worlds


@pytest.fixture(autouse=True)
def no_public_authorities(monkeypatch, tmp_path):
    """Reading the system's certificate authorities takes most of a test's time, and nothing here speaks TLS to it."""
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))


@pytest.fixture
def world():
    return worlds.World()


@pytest.fixture
def kubeconfig(world, tmp_path):
    with worlds.Server(world) as server:
        yield written(tmp_path / "kubeconfig", server.url)


def written(path, url):
    cluster = {"name": "c", "cluster": {"server": url}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "x", **config}))
    return path


@pytest.fixture
async def installation(kubeconfig):
    """Make a installation with options of the test's."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(**options):
            sender = await clients.connect(kubeconfig)
            stack.push_async_callback(sender.close)
            return Installation(sender, Options(**options), worlds.base())

        yield make


@pytest.fixture
def examine(installation):
    """Examine the world by all checks or by one; returns `SEVERITY CHECK: WHAT; TODO` of its findings."""

    async def run(check="", **options):
        checks = [each for each in examination.CHECKS if check in {"", each.name}]
        found = await examination.examine(await installation(**options), checks)
        chosen = [each for each in found if check in {"", each.check}]
        return [f"{each.severity.value} {each.check}: {each.what}; {each.todo}" for each in chosen]

    return run


@pytest.fixture
def doctor(kubeconfig, capsys):
    """Run `muster doctor`; returns code, output, errors."""

    def run(*options):
        capsys.readouterr()
        try:
            code = main(["doctor", "--kubeconfig", str(kubeconfig), *options])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run
