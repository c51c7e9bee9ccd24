"""How a pod reaches the API server, and what it is told where it cannot."""

from __future__ import annotations

import pytest
from aiohttp import web

from muster.kube.authentication import address, of_account
from muster.sessions.platforms.api import Api, ApiError, UnreachableError, namespace_of


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [("10.0.0.1", "443", "https://10.0.0.1:443"), ("fd00::1", "6443", "https://[fd00::1]:6443")],
)
def test_a_pod_reaches_the_api_server_by_its_environment(host, port, url):
    assert address({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}) == url


def test_outside_of_a_pod_it_is_told_what_is_missing(tmp_path):
    with pytest.raises(ValueError, match="set KUBERNETES_SERVICE_HOST"):
        address({})
    with pytest.raises(ValueError, match="no usable service account"):
        of_account("https://10.0.0.1", tmp_path)
    with pytest.raises(ValueError, match="pass --gateway-namespace"):
        namespace_of(tmp_path)
    (tmp_path / "namespace").write_text("team-a\n")
    assert namespace_of(tmp_path) == "team-a"


@pytest.mark.parametrize(
    ("status", "body", "error", "told"),
    [
        (403, b'{"kind": "Status", "message": "may not"}', ApiError, "may not"),
        (422, b"<html>", ApiError, "<html>"),
        (429, b'{"message": "too many"}', UnreachableError, "too many"),
        (503, b"[]", UnreachableError, r"\[\]"),
        (200, b"<html>", UnreachableError, "is not JSON"),
    ],
)
async def test_what_the_api_server_refuses_is_told_apart_from_what_it_cannot_answer(
    tmp_path, status, body, error, told
):
    async def answer(request):
        assert request.headers["Authorization"] == "Bearer renewed"
        return web.Response(status=status, body=body)

    (tmp_path / "token").write_text("first")
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api = Api(of_account(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}", tmp_path), "team-a")
    (tmp_path / "token").write_text("renewed")  # as a kubelet does each hour
    with pytest.raises(error, match=told):
        await api.get("JobSet", "a")
    await api.close()
    await runner.cleanup()


async def test_an_api_server_that_is_not_there_is_unreachable(tmp_path):
    (tmp_path / "token").write_text("a")
    api = Api(of_account("http://127.0.0.1:9", tmp_path), "team-a")
    for asked in (api.get("Secret", "a"), api.changed("a=b", "1", 1)):
        with pytest.raises(UnreachableError):
            await asked
    await api.close()
