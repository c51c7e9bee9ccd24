"""What takes too long is ended at its deadline and answered, while others are served."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal

import orjson
import pytest

from muster.audit import record_schema
from muster.strategies.frameworks import builtin
from muster.webhook.admission import decisions
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster import readers
from muster.webhook.cluster.memory import InMemoryReader
from muster.webhook.server import handlers, resolvers, salvage
from tests.server.conftest import RUNTIME, TRAINJOB, review
from tests.support import admissions, plugins, waits

SEALED = {"seq": 1, "prev": "0" * 64, "hash": "0" * 64}
LARGE = TRAINJOB | {"metadata": TRAINJOB["metadata"] | {"annotations": {"notes": "x" * 2 * handlers.APART}}}
LONG = 200.0
"""Seconds of a deadline that no machine reaches; tests put the clock forward by as much."""
IN_TREE = Policy(registry=builtin.load(plugins=False))


def namespace(mode):
    labels = {"muster.dev/mode": mode}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """Let a slow machine look up the mode of a job after its deadline too."""
    monkeypatch.setattr(resolvers, "_LOOK_SECONDS", waits.LIMIT)


@pytest.fixture
def endless(monkeypatch):
    """Let the evaluation of large objects take for ever; returns what is set when one has begun, and may go on."""
    fork, evaluate = multiprocessing.get_context("fork"), decisions.evaluate
    begun, free = fork.Event(), fork.Event()

    def slowly(request, cluster, policy):
        if "annotations" in request.document["metadata"]:
            begun.set()
            while not free.is_set():
                pass
        return evaluate(request, cluster, policy)

    monkeypatch.setattr(decisions, "evaluate", slowly)
    return begun, free


async def late(webhook, clock, begun, **wanted):
    """Send a large review whose deadline comes once its evaluation has begun; return the response."""
    asked = asyncio.create_task(webhook.admit(document=LARGE, **wanted))
    assert await asyncio.to_thread(begun.wait, waits.LIMIT)
    clock.forward(LONG)
    return await asyncio.wait_for(asked, waits.LIMIT)


async def test_an_evaluation_that_never_ends_is_ended_and_answered_with_its_uid_and_a_record(serve, endless, clock):
    webhook = await serve(policy=IN_TREE, limits=(200, LONG))
    response = await late(webhook, clock, endless[0], uid="u7")
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u7", False, 500)
    assert "did not decide within the time" in response["status"]["message"]
    (record,) = webhook.records.kept
    assert (record["uid"], record["decision"], record_schema.misfit(record | SEALED)) == ("u7", "error", None)


async def test_others_are_answered_while_an_evaluation_never_ends(serve, endless):
    webhook = await serve(policy=IN_TREE, limits=(200, 30))
    stuck = asyncio.create_task(webhook.admit(document=LARGE))
    await asyncio.to_thread(endless[0].wait, waits.LIMIT)
    answers = [await webhook.admit(uid=f"u{number}") for number in range(20)]
    assert all("patch" in answer for answer in answers)
    assert not stuck.done()
    endless[1].set()
    assert "patch" in await stuck


@pytest.mark.parametrize(("mode", "decision"), [("warn", "error"), ("audit", "error"), ("off", "skipped")])
async def test_a_deadline_is_answered_by_the_mode_of_the_namespace(serve, endless, clock, mode, decision):
    reader = InMemoryReader([*RUNTIME, namespace(mode)])
    webhook = await serve(reader, policy=IN_TREE, limits=(200, LONG))
    assert (await late(webhook, clock, endless[0]))["allowed"]
    assert [(record["decision"], record["mode"]) for record in webhook.records.kept] == [(decision, mode)]


async def test_an_update_passes_at_its_deadline(serve, endless, clock):
    webhook = await serve(policy=IN_TREE, limits=(200, LONG))
    assert (await late(webhook, clock, endless[0], old=LARGE, operation="UPDATE"))["allowed"]


async def test_a_cluster_that_does_not_answer_in_time_is_answered_with_the_uid(serve, clock):
    class Empty:
        whole = True

        def get(self, ref):
            raise readers.NotCached(ref)

    async def fetch(ref):
        clock.forward(LONG)
        await asyncio.Event().wait()

    webhook = await serve(Empty(), fetch, IN_TREE, (200, LONG))
    response = await webhook.admit(uid="u8")
    assert (response["uid"], response["status"]["code"]) == ("u8", 500)
    assert [record["uid"] for record in webhook.records.kept] == ["u8"]


@pytest.mark.parametrize("error", [RecursionError, MemoryError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("document", [TRAINJOB, LARGE], ids=["small", "large"])
async def test_whatever_an_evaluation_raises_is_answered_with_the_uid_and_a_record(serve, monkeypatch, error, document):
    def fails(request, cluster, policy):
        raise error

    monkeypatch.setattr(decisions, "evaluate", fails)
    webhook = await serve(policy=IN_TREE)
    response = await webhook.admit(document=document, uid="u2")
    assert (response["uid"], response["status"]["code"]) == ("u2", 500)
    assert [record["decision"] for record in webhook.records.kept] == ["error"]


class UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("even this")

    __repr__ = __str__


@pytest.mark.parametrize(
    "place", ["answers.answer", "accounts.record", "reviews.dumps", "answers.answer, accounts.record"]
)
@pytest.mark.parametrize("document", [TRAINJOB, LARGE], ids=["small", "large"])
async def test_what_fails_after_the_decision_is_answered_with_the_uid_and_a_record(serve, monkeypatch, place, document):
    webhook = await serve(policy=IN_TREE)
    for name in place.split(", "):
        failing_once(monkeypatch, f"muster.webhook.admission.{name}")
    response = await webhook.admit(document=document, uid="u3")
    assert (response["uid"], response["allowed"]) == ("u3", False)
    assert [(record["uid"], record["decision"]) for record in webhook.records.kept] == [("u3", "error")]


def failing_once(monkeypatch, name):
    module, _, attribute = name.rpartition(".")
    real = getattr(__import__(module, fromlist=["_"]), attribute)
    failed = []

    def fails(*args, **options):
        if not failed:
            failed.append(1)
            raise UnspeakableError
        return real(*args, **options)

    monkeypatch.setattr(name, fails)


async def test_an_answer_is_given_although_nothing_can_be_told(serve, monkeypatch):
    def fails(*_args, **_options):
        raise UnspeakableError

    webhook = await serve(policy=IN_TREE)
    monkeypatch.setattr("muster.webhook.admission.answers.answer", fails)
    response = await webhook.admit(uid="u4")
    assert (response["uid"], response["allowed"]) == ("u4", False)
    assert (await webhook.admit(operation="UPDATE", old=TRAINJOB))["allowed"]


async def test_a_recorder_and_metrics_that_fail_keep_nobody_from_an_answer(serve, monkeypatch):
    def fails(*_args, **_options):
        raise UnspeakableError

    webhook = await serve(policy=IN_TREE)
    monkeypatch.setattr(webhook.metrics, "observe", fails)
    assert "patch" in await webhook.admit()
    webhook.records.submit = fails
    assert (await webhook.admit(uid="u5"))["status"]["code"] == 503  # as a record that cannot be kept
    assert (await webhook.admit(operation="UPDATE", old=TRAINJOB))["allowed"]


# --- what cannot be read ---------------------------------------------------------------------------------------------

NUMBERS = [b"1" * 5000, b"1e999", b"-" + b"9" * 400]


@pytest.mark.parametrize(
    "value",
    [*NUMBERS, b'"\\ud800"', b"[" * 600 + b"]" * 600, b"[" * 100_000, b"\xff", b"nothing"],
    ids=["digits", "exponent", "negative", "surrogate", "nested", "deep", "bytes", "word"],
)
async def test_an_object_that_cannot_be_read_is_refused_with_the_uid(serve, value):
    webhook = await serve(policy=IN_TREE)
    body = orjson.dumps(review(TRAINJOB | {"other": 42}, uid="u6", userInfo={"username": "ada"}))
    status, answered = await webhook.post("/mutate/trainjobs", body.replace(b'"other":42', b'"other":' + value))
    response = orjson.loads(answered)["response"]
    assert (status, response["uid"], response["allowed"], response["status"]["code"]) == (200, "u6", False, 400)


@pytest.mark.parametrize("value", [*NUMBERS, b'"\\ud800"', b"[" * 600 + b"]" * 600])
async def test_an_object_that_cannot_be_read_leaves_a_record_of_who_sent_it(serve, value):
    webhook = await serve(policy=IN_TREE)
    request = {"operation": "CREATE", "userInfo": {"username": "ada"}, "name": "llama", "uid": "u6"}
    body = orjson.dumps(review(TRAINJOB | {"other": 42}, **request))
    await webhook.post("/mutate/trainjobs", body.replace(b'"other":42', b'"other":' + value))
    (record,) = webhook.records.kept
    assert (record["uid"], record["user"]["username"], record["decision"]) == ("u6", "ada", "error")
    assert record["object"] == {"kind": "TrainJob", "namespace": "team-a", "name": "llama"}
    assert record_schema.misfit(record | SEALED) is None


@pytest.mark.parametrize("mode", ["warn", "audit", "off"])
async def test_an_object_that_cannot_be_read_passes_where_nothing_is_enforced(serve, mode):
    webhook = await serve(InMemoryReader([*RUNTIME, namespace(mode)]), policy=IN_TREE)
    body = orjson.dumps(review(TRAINJOB | {"other": 42})).replace(b'"other":42', b'"other":' + NUMBERS[0])
    _, answered = await webhook.post("/mutate/trainjobs", body)
    assert orjson.loads(answered)["response"]["allowed"]
    assert [record["mode"] for record in webhook.records.kept] == [mode]


async def test_an_update_that_cannot_be_read_passes(serve):
    webhook = await serve(policy=IN_TREE)
    body = orjson.dumps(review(TRAINJOB | {"other": 42}, "UPDATE", TRAINJOB))
    _, answered = await webhook.post("/validate/trainjobs", body.replace(b'"other":42', b'"other":' + NUMBERS[0]))
    assert orjson.loads(answered)["response"]["allowed"]
    assert [record["decision"] for record in webhook.records.kept] == ["error"]


async def test_a_uid_behind_an_object_that_cannot_be_read_is_found(serve):
    webhook = await serve(policy=IN_TREE)
    request = {"object": {"a": 42}, "operation": "CREATE", "uid": "late-\U0001f600"}
    body = orjson.dumps({"kind": "AdmissionReview", "request": request}).replace(b"42", b"1" * 5000)
    _, answered = await webhook.post("/mutate/trainjobs", body)
    assert orjson.loads(answered)["response"]["uid"] == "late-\U0001f600"


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(
    "padding", [b"[" + b"[]," * salvage.MOST_VALUES + b"[]]", b'["' + b"x" * 400_000 + b'",' + NUMBERS[0] + b"]"]
)
async def test_who_sent_a_large_object_that_cannot_be_read_is_recorded(serve, padding, operation):
    webhook = await serve(policy=IN_TREE)
    old = TRAINJOB if operation == "UPDATE" else None
    sent = review(TRAINJOB, operation, None, userInfo={"username": "ada"})
    del sent["request"]["object"], sent["request"]["oldObject"]
    sent["request"] |= {"object": TRAINJOB | {"other": 42}, "oldObject": old}  # in the order of the API server
    body = orjson.dumps(sent).replace(b'"other":42', b'"other":' + padding)
    assert len(body) > 256 * 1024
    _, answered = await webhook.post("/mutate/trainjobs", body)
    assert orjson.loads(answered)["response"]["allowed"] is (operation == "UPDATE")
    (record,) = webhook.records.kept
    assert (record["decision"], record["uid"], record["user"]["username"]) == ("error", sent["request"]["uid"], "ada")


async def test_a_body_of_too_many_values_is_refused_before_it_is_read(serve):
    webhook = await serve(policy=IN_TREE)
    dense = b"[" + b"[]," * (salvage.MOST_VALUES // 2) + b"[]]"
    body = orjson.dumps(review(TRAINJOB | {"other": 42}, uid="u6")).replace(b'"other":42', b'"other":' + dense)
    _, answered = await webhook.post("/mutate/trainjobs", body)
    response = orjson.loads(answered)["response"]
    assert (response["uid"], response["allowed"]) == ("u6", False)
    assert "more than 400,000 values" in response["status"]["message"]


@pytest.mark.parametrize("text", [", ", "[", '\\"{', '"', "\\", '\\\\"['])
async def test_what_a_string_holds_is_no_value(serve, text):
    webhook = await serve(policy=IN_TREE)
    metadata = TRAINJOB["metadata"] | {"annotations": {"notes": text * (salvage.MOST_VALUES // 2 * 3 // len(text))}}
    assert (await webhook.admit(document=TRAINJOB | {"metadata": metadata}))["allowed"]


@pytest.mark.parametrize("stage", ["enforce_command", "validate"])
async def test_a_plugin_that_nothing_interrupts_ends_with_the_deadline_of_its_review(serve, clock, stage):
    begun = multiprocessing.get_context("fork").Event()

    def hang(*_):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # as a call into C that does not return
        begun.set()
        while True:
            pass

    plugin = plugins.make_strategy("trl", **{stage: hang})
    webhook = await serve(policy=admissions.policy_with(plugin, plugin_budget=LONG), limits=(200, LONG))
    asked = asyncio.create_task(webhook.admit("/mutate/trainjobs" if stage != "validate" else "/validate/trainjobs"))
    assert await asyncio.to_thread(begun.wait, waits.LIMIT)
    clock.forward(LONG)
    response = await asyncio.wait_for(asked, waits.LIMIT)
    assert (response["allowed"], response["status"]["code"]) == (False, 500)


async def test_a_plugin_that_takes_memory_without_end_fails_its_own_review_only(serve):
    def fill(*_):
        kept = []
        while True:
            kept.append(bytes(1 << 24))

    plugin = plugins.make_strategy("trl", enforce_command=fill)
    webhook = await serve(policy=admissions.policy_with(plugin, plugin_budget=LONG), limits=(200, LONG))
    response = await webhook.admit()
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "MemoryError" in response["status"]["message"]


async def test_a_job_without_the_plugin_is_decided_on_the_loop(serve, monkeypatch):
    monkeypatch.delattr("os.fork")
    with_plugin = builtin.load(plugins=False)
    with_plugin.register(plugins.make_strategy("acme"), "muster-strategy-test 1.0")
    webhook = await serve(policy=Policy(registry=with_plugin))
    assert (await webhook.admit())["allowed"]
