"""A whole examination: what it asks, what it says when it may not ask, and that nothing keeps it from ending."""

from __future__ import annotations

import pytest

from muster.kube import transports
from muster.webhook.doctor import examination
from muster.webhook.doctor.live_installation import Options
from tests.doctor import worlds

CHECKS = {"api-server", *(check.name for check in examination.CHECKS)}


async def test_a_good_installation_has_nothing_but_good_findings(examine):
    found = await examine()
    assert {line.partition(" ")[0] for line in found} == {"ok"}
    # Nothing is dialled by itself where webhooks are behind a Service, and no pod is started.
    assert {line.split()[1].rstrip(":") for line in found} == CHECKS - {"certificate", "guard"}


async def test_nothing_is_written(world, examine):
    await examine()
    written = [(path, query) for method, path, query in world.seen if method != "GET"]
    jobs = [query for path, query in written if not path.endswith("accessreviews")]
    assert jobs
    assert all(query == {"dryRun": "All"} for query in jobs)


async def test_an_object_that_several_checks_look_at_is_read_once(world, examine):
    await examine()
    read = [path for method, path, _ in world.seen if method == "GET"]
    assert read.count(worlds.MUTATING) == 1
    assert read.count(worlds.CONFIGMAP) == 1


async def test_lists_are_asked_for_in_bounded_pages(world, examine):
    await examine()
    listed = [query for method, path, query in world.seen if method == "GET" and path == worlds.NAMESPACES]
    assert [query["limit"] for query in listed] == ["500"]


@pytest.mark.parametrize("check", examination.CHECKS, ids=lambda check: check.name)
async def test_a_check_that_may_not_look_says_which_permission_is_missing(world, examine, check):
    need = check.needs(Options(guard=True))[0]
    world.forbidden = {f"{need.verb} {need.resource}"}
    (line,) = await examine(check.name, guard=True)
    assert line.startswith(f"unknown {check.name}: was not checked: you may not {need.verb} {need.resource}")


async def test_who_cannot_ask_about_permissions_is_told_by_the_requests_themselves(world, examine):
    world.texts["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = (403, "no")
    world.texts[worlds.SERVICE] = (403, "services is forbidden")
    assert (await examine("webhooks"))[0].startswith("ok webhooks")
    (line,) = await examine("service")
    assert line.startswith("unknown service: could not be checked: HTTP 403: services is forbidden")


@pytest.mark.parametrize(
    ("path", "check"), [(worlds.MUTATING, "webhooks"), (worlds.SLICES, "service"), (worlds.RUNTIMES, "probe")]
)
async def test_a_request_without_an_answer_ends_as_unknown(world, examine, path, check):
    world.stalled = {path}
    (line,) = await examine(check, timeout=2)
    assert line.startswith(f"unknown {check}: could not be checked: GET {path} was not answered within 2 s")


async def test_an_answer_that_is_too_large_ends_as_unknown(world, examine):
    world.objects[worlds.CONFIGMAP] = {"data": {"muster.yaml": "#" * (5 * 1024 * 1024)}}
    (line,) = await examine("configuration")
    assert "is larger than 4096 KiB" in line


async def test_an_answer_that_is_no_kubernetes_ends_as_unknown(world, examine):
    world.texts[worlds.SERVICE] = (200, "<html>sign in</html>")
    (line,) = await examine("service")
    assert line.startswith("unknown service: could not be checked")
    assert "is not JSON" in line


async def test_an_api_server_that_does_not_tell_its_version_ends_the_examination(world, installation):
    world.stalled = {"/version"}
    with pytest.raises(transports.UnreachableError, match="/version was not answered within"):
        await examination.examine(await installation(timeout=0.3))


async def test_another_namespace_and_name_are_looked_at(world, examine):
    found = await examine("deployment", namespace="other", name="mine")
    assert found[0].startswith("error deployment: Deployment other/mine does not exist")
    assert "/apis/apps/v1/namespaces/other/deployments/mine" in [path for _, path, _ in world.seen]
