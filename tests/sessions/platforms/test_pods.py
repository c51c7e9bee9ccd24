"""Engines as pods: they come, are found again, are replaced and go, whatever happens between two steps."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal

import pytest

from muster.kube.authentication import of_account
from muster.sessions.engines.client import LostError
from muster.sessions.metrics import Metrics
from muster.sessions.platforms import manifests
from muster.sessions.platforms.kubernetes import Pods
from muster.sessions.platforms.manifests import Settings, Volume
from muster.sessions.platforms.pods import Engines, seen
from tests.sessions.platforms.cluster import Cluster

NAME = "muster-gateway"
WAIT = 120


@pytest.fixture
async def cluster(tmp_path):
    async with Cluster(tmp_path) as made:
        yield made


@pytest.fixture
async def pair(cluster, tmp_path):
    """Make Gateways of the cluster; at the end all of them end."""
    made = []

    def make(*more, **changed):
        settings = Settings("gateway", "team-a", "gateways", "engine", Volume("state"), tmp_path / "root", tmp_path)
        base = ["--base", str(tmp_path)]
        arguments = {
            "trainer": [*base, "--trainer", "tests.sessions.bigram:Trainer"],
            "sampler": [*base, "--sampler", "tests.sessions.bigram:Sampler", *more],
        }
        settings = dataclasses.replace(settings, **changed)
        made.append(Pods(settings, arguments, of_account(cluster.url, tmp_path), Metrics()))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def up(pods):
    async with asyncio.timeout(WAIT):
        return await asyncio.gather(pods.trainer.ready(), pods.sampler.ready())


async def until(condition):
    async with asyncio.timeout(WAIT):
        while not condition():  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.02)


def term(cluster):
    return cluster.objects["jobsets", NAME]["metadata"]["annotations"][manifests.TERM]


async def test_both_engines_come_and_answer_and_nothing_is_left_at_the_end(cluster, pair):
    pods = pair()
    await pods.start()
    instances = await up(pods)
    assert (await pods.trainer.engine.state())["instance"] == instances[0]
    assert (await pods.sampler.engine.state())["instance"] == instances[1]
    kinds = {kind for kind, _ in cluster.objects}
    assert kinds == {"jobsets", "secrets", "serviceaccounts", "networkpolicies"}
    await pods.close()
    assert (cluster.objects, cluster.pods) == ({}, {})


async def test_no_pod_comes_before_what_protects_it(cluster, pair):
    cluster.denied["PATCH", "networkpolicies"] = (403, "may not")
    pods = pair()
    await pods.start()
    await until(pods.trainer.refused.is_set)
    assert cluster.objects["jobsets", NAME]["spec"]["suspend"]
    assert cluster.pods == {}
    assert pods.trainer.refusal == "the trainer cannot be made a pod: may not"


async def test_the_folders_that_pods_mount_are_there_before_them(pair, tmp_path):
    await pair().start()
    assert {each.name for each in (tmp_path / "root").iterdir()} == set(manifests.FOLDERS)


async def test_a_process_that_died_is_another_instance_in_the_same_pod(cluster, pair):
    pods = pair()
    await pods.start()
    before, _ = await up(pods)
    pod = cluster.pod("trainer")
    pod.process.send_signal(signal.SIGKILL)
    async with asyncio.timeout(WAIT):
        await pods.trainer.after(before)
    await until(lambda: pods.trainer.instance not in {"", before})
    assert cluster.pod("trainer") is pod


async def test_a_pod_that_is_gone_is_followed_by_another_and_who_waited_is_told(cluster, pair):
    pods = pair()
    await pods.start()
    before, _ = await up(pods)
    pod = cluster.pod("trainer")
    pod.process.send_signal(signal.SIGSTOP)  # it answers nothing any more, as on a machine that has vanished
    asked = asyncio.create_task(pods.trainer.engine.state())
    await asyncio.sleep(0)
    await cluster.remove(pod.name)
    async with asyncio.timeout(WAIT):
        with pytest.raises(LostError):
            await asked
        await until(lambda: pods.trainer.instance not in {"", before})
    assert cluster.pod("trainer").address != pod.address


async def test_a_gateway_that_was_killed_is_followed_by_one_that_finds_the_engines_as_they_are(cluster, pair):
    first, second = pair(), pair()
    await first.start()
    instances = await up(first)
    uid = cluster.objects["jobsets", NAME]["metadata"]["uid"]
    first._task.cancel()  # as if it were killed: it removes nothing
    await second.start()
    assert await up(second) == instances
    assert cluster.objects["jobsets", NAME]["metadata"]["uid"] == uid
    assert term(cluster) == "3"
    with pytest.raises(LostError, match="a Gateway of term 3 has this engine, so one of term 2 has not"):
        await first.trainer.engine.state()


async def test_a_gateway_that_has_been_followed_lets_go_and_removes_nothing(cluster, pair):
    first, second = pair(), pair()
    await first.start()
    await up(first)
    await second.start()
    instances = await up(second)
    await until(lambda: first.trainer.waits_for == "another Gateway has the engines")
    await first.close()
    assert ("jobsets", NAME) in cluster.objects
    assert await up(second) == instances


async def test_of_two_gateways_that_begin_at_once_one_has_the_engines(cluster, pair):
    both = [pair(), pair()]
    await asyncio.gather(*(each.start() for each in both))
    await until(lambda: any(each.trainer.is_up and each.sampler.is_up for each in both))
    assert len({name for _, name in cluster.objects}) == 1
    assert len(cluster.pods) == 2


@pytest.mark.parametrize("lost", ["jobsets", "secrets"])
async def test_what_was_deleted_by_hand_is_made_again(cluster, pair, lost):
    pods, again = pair(), pair()
    await pods.start()
    before = await up(pods)
    if lost == "secrets":  # which matters when a Gateway begins
        pods._task.cancel()
    await cluster.deleted(lost, NAME)
    if lost == "secrets":
        await again.start()
        pods = again
    await until(lambda: pods.trainer.instance not in {"", before[0]} and pods.sampler.instance not in {"", before[1]})
    assert {kind for kind, _ in cluster.objects} == {"jobsets", "secrets", "serviceaccounts", "networkpolicies"}


async def test_engines_of_other_settings_are_made_anew(cluster, pair):
    first, second = pair(), pair(image="engine:2")
    await first.start()
    await up(first)
    first._task.cancel()
    await second.start()
    await until(lambda: second.trainer.is_up)
    (container,) = cluster.pod("trainer").document["spec"]["containers"]
    assert container["image"] == "engine:2"


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "Failed", "status": "True"}]},
        {"conditions": [{"type": "Completed", "status": "True"}]},
        {"replicatedJobsStatus": [{"name": "sampler", "succeeded": 1}]},  # nobody asked it for a while
    ],
)
async def test_engines_that_have_ended_are_made_anew(cluster, pair, status):
    pods = pair()
    await pods.start()
    before, _ = await up(pods)
    cluster.objects["jobsets", NAME]["status"] = status
    await cluster._told()
    await until(lambda: pods.trainer.instance not in {"", before})


async def test_an_engine_that_cannot_be_made_of_what_it_is_given_tells_why_in_one_sentence(cluster, pair):
    pods = pair("--sampler-option", "memroy=0.4")
    await pods.start()
    async with asyncio.timeout(WAIT):
        await pods.sampler.refused.wait()
    told = "the sampler cannot start: --sampler-option: memroy: Sampler does not take it: leave it out"
    assert pods.sampler.refusal == told
    assert not pods.trainer.refused.is_set()
    await pods.close()
    assert cluster.objects == {}


@pytest.mark.parametrize("kind", ["jobsets", "secrets"])
async def test_an_object_that_is_not_of_a_gateway_is_left_alone_and_told(cluster, pair, kind):
    theirs = {"metadata": {"name": NAME, "uid": "theirs", "resourceVersion": "1"}, "data": {}}
    cluster.objects[kind, NAME] = theirs
    pods = pair()
    await pods.start()
    async with asyncio.timeout(WAIT):
        await pods.trainer.refused.wait()
    told = f"a {'JobSet' if kind == 'jobsets' else 'Secret'} {NAME} exists that no Gateway of this name made"
    assert told in pods.trainer.refusal
    await pods.close()
    assert cluster.objects[kind, NAME] is theirs


async def test_engines_belong_to_the_rights_of_their_gateway_and_go_with_them(cluster, pair):
    cluster.objects["rolebindings", NAME] = {"metadata": {"name": NAME, "uid": "uid-binding"}}
    pods = pair()
    await pods.start()
    await up(pods)
    (owner,) = cluster.objects["jobsets", NAME]["metadata"]["ownerReferences"]
    expected = {"kind": "RoleBinding", "name": NAME, "uid": "uid-binding"}
    assert owner == {"apiVersion": "rbac.authorization.k8s.io/v1", **expected}
    for verb in ("GET", "POST", "PATCH", "DELETE"):
        cluster.denied[verb, "jobsets"] = (403, "may not")
    await cluster.deleted("rolebindings", NAME)
    await pods.close()
    assert (cluster.objects, cluster.pods) == ({}, {})


async def test_a_gateway_whose_rights_are_called_otherwise_has_engines_that_belong_to_nothing(cluster, pair):
    cluster.denied["GET", "rolebindings"] = (403, "may not get rolebindings")
    pods = pair()
    await pods.start()
    await up(pods)
    assert "ownerReferences" not in cluster.objects["jobsets", NAME]["metadata"]


async def test_what_is_refused_after_the_engines_were_there_is_told_and_tried_again(cluster, pair):
    pods = pair()
    await pods.start()
    before, _ = await up(pods)
    cluster.denied["POST", "jobsets"] = (403, "quota exceeded")
    await cluster.deleted("jobsets", NAME)
    await until(lambda: pods.trainer.waits_for == "the trainer cannot be made a pod: quota exceeded")
    assert not pods.trainer.refused.is_set()
    cluster.denied.clear()
    await until(lambda: pods.trainer.instance not in {"", before})


async def test_an_api_server_that_is_away_takes_no_engine_away(cluster, pair):
    pods = pair()
    await pods.start()
    before = await up(pods)
    for verb, kind in (("GET", "jobsets"), ("GET", "pods")):
        cluster.denied[verb, kind] = (503, "is away")
    cluster.asked.clear()
    await cluster._told()
    await until(lambda: ("GET", "jobsets") in cluster.asked)
    assert (pods.trainer.instance, pods.sampler.instance) == tuple(before)
    assert (await pods.trainer.engine.state())["instance"] == before[0]


def pod(name="a", *, made="2026-01-01T00:00:00Z", ready="False", ip=None, gone=False, gates=(), **status):
    metadata = {"name": name, "creationTimestamp": made, "labels": {"muster.dev/role": "trainer"}}
    if gone:
        metadata["deletionTimestamp"] = made
    conditions = [{"type": "Ready", "status": ready}, *status.pop("conditions", ())]
    spec = {"schedulingGates": [{"name": each} for each in gates]}
    return {"metadata": metadata, "spec": spec, "status": {"podIP": ip, "conditions": conditions, **status}}


def waiting(reason):
    return {"containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}


UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}


@pytest.mark.parametrize(
    ("pods", "address", "reason", "absence"),
    [
        ([], None, "the trainer is starting: its pod is being made", "starting"),
        ([pod(ready="True", ip="10.0.0.7")], "10.0.0.7", "", ""),
        ([pod(ready="True", ip="1", gone=True)], None, "the trainer is starting: its pod is being made", "starting"),
        (
            [pod("a", ready="True", ip="1"), pod("b", made="2026-01-01T00:00:01Z")],
            None,
            "the trainer is starting",
            "starting",
        ),
        ([pod(ip="10.0.0.7")], None, "the trainer is starting", "starting"),
        ([pod(**waiting("ContainerCreating"))], None, "the trainer is starting", "starting"),
        (
            [pod(**waiting("ImagePullBackOff"))],
            None,
            "the trainer does not start: ImagePullBackOff; its operator finds why in pod a",
            "failing",
        ),
        ([pod(conditions=[UNSCHEDULED])], None, "the trainer waits for a node: 0/3 nodes", "node"),
        (
            [pod(conditions=[UNSCHEDULED], gates=["muster.dev/seat"])],
            None,
            "the trainer waits for a seat on a shared device",
            "seat",
        ),
    ],
)
def test_why_an_engine_is_not_there_is_told_from_its_pod(pods, address, reason, absence):
    found = seen("trainer", pods)
    assert (found.address, found.reason, found.refusal, found.absence) == (address, reason, "", absence)
    assert seen("sampler", pods).address is None


async def test_for_whom_an_engine_waits_is_told_while_it_waits_also_when_it_answers(cluster, pair, tmp_path):
    cluster.objects["resourceclaims", "muster-seat-0"] = claim = {
        "metadata": {"name": "muster-seat-0", "uid": "uid-claim", "annotations": {}}
    }
    pods = pair(profile="seat", lease=tmp_path / "lease.sock")
    await pods.start()
    await up(pods)
    assert pods.trainer.waits_for == ""
    lease = {"holder": "muster-b-trainer", "since": "then", "waiting": ["x", cluster.pod("trainer").name]}
    claim["metadata"]["annotations"]["muster.dev/lease"] = json.dumps(lease)
    await cluster._told()
    await until(lambda: pods.trainer.waits_for)
    assert (pods.trainer.is_up, pods.trainer.absence, pods.sampler.waits_for) == (True, "", "")
    assert pods.trainer.waits_for == (
        "the trainer waits for its turn on the device of claim muster-seat-0, place 2 of 2 by the time at which they "
        "asked; muster-b-trainer has had it since then"
    )
    claim["metadata"]["annotations"]["muster.dev/lease"] = json.dumps({**lease, "waiting": []})
    await cluster._told()
    await until(lambda: not pods.trainer.waits_for)


async def test_a_gateway_that_may_not_read_claims_has_its_engines_all_the_same(cluster, pair, caplog):
    cluster.full = frozenset({"seat"})
    cluster.denied["GET", "resourceclaims"] = (403, "may not get resourceclaims")
    pods = pair(profile="seat")
    await pods.start()
    await until(lambda: pods.trainer.absence == "seat")
    assert pods.trainer.waits_for == "the trainer waits for a seat on a shared device"
    await cluster.free("seat")
    await up(pods)
    assert caplog.text.count("may not get resourceclaims") == 1


async def test_in_one_word_it_is_told_for_what_an_engine_waits_until_nobody_wants_it():
    engines = Engines("trainer", Metrics())
    assert engines.absence == ""
    await engines.found(seen("trainer", [pod(conditions=[UNSCHEDULED], gates=["muster.dev/seat"])]), "t", 1)
    assert engines.absence == "seat"
    await engines.found(seen("trainer", []), "t", 1)
    assert engines.absence == "starting"
    engines.refuse("the trainer cannot be made a pod")
    assert engines.absence == "refused"
    await engines.lose("the Gateway ends")
    assert engines.absence == ""
