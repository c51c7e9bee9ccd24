"""A strategy of somebody else may fail in any way: it is named, nothing of its work is kept, the service lives on."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import signal
import threading

import pytest

from muster.strategies import error
from muster.strategies.frameworks.default.default_strategy import DefaultStrategy
from muster.strategies.plugins.registry import Registry
from muster.webhook.admission import answers
from muster.webhook.admission.policies import Mode, Policy
from tests.support import acmes, admissions, jobs

# An alarm may ring in a callback of the interpreter's own, which loses what is raised there; it rings again then.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("even my message fails")


# --- it raises --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", acmes.STAGES)
@pytest.mark.parametrize(
    "what",
    [
        ValueError("boom"),
        KeyError("x"),
        RecursionError("deep"),
        MemoryError(),
        AssertionError(),
        SystemExit(1),
        KeyboardInterrupt(),
        StopIteration(),
        GeneratorExit(),
        UnspeakableError(),
    ],
    ids=lambda what: type(what).__name__,
)
def test_a_strategy_that_raises_is_named_with_its_method_and_its_error(stage, what):
    decision = acmes.decide(acmes.acme(**{stage: acmes.raising(what)}), acmes.phase_of(stage))
    assert (decision.verdict, decision.allowed) == ("error", False)
    assert decision.message.startswith(f"strategy 'acme' ({acmes.ORIGIN}) failed in {stage}: {type(what).__name__}")
    assert decision.strategy.origin == acmes.ORIGIN


class LeavingError(Exception):
    def __str__(self):
        raise SystemExit(1)


class NamelessType(type):
    @property
    def __name__(cls):
        raise KeyboardInterrupt


class NamelessError(Exception, metaclass=NamelessType):
    pass


@pytest.mark.parametrize("stage", acmes.STAGES)
@pytest.mark.parametrize("what", [LeavingError(), NamelessError()], ids=["text", "name"])
def test_an_exception_cannot_end_the_process_by_what_it_says(stage, what):
    decision = acmes.decide(acmes.acme(**{stage: acmes.raising(what)}), acmes.phase_of(stage))
    assert (decision.verdict, decision.allowed) == ("error", False)
    assert decision.message.startswith(f"strategy 'acme' ({acmes.ORIGIN}) failed in {stage}: ")


@pytest.mark.parametrize("stage", acmes.STAGES)
@pytest.mark.parametrize("what", [ValueError("boom"), SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_a_method_that_fails_when_it_is_looked_up_is_a_failure_of_the_strategy(stage, what):
    plugin = acmes.acme()
    policy = admissions.policy_with(plugin)

    def lost(_):
        raise what

    setattr(type(plugin), stage, property(lost))
    decision = admissions.decide(acmes.JOB, acmes.RUNTIME, phase=acmes.phase_of(stage), policy=policy)
    assert decision.message.startswith(f"strategy 'acme' ({acmes.ORIGIN}) failed in {stage}: {type(what).__name__}")


def test_a_finding_cannot_say_anything_when_it_is_shown():
    class Loud(str):
        __slots__ = ()

        def __str__(self):
            raise SystemExit(1)

        __format__ = __repr__ = __str__

    said = [error(Loud("spec"), Loud("value"), Loud("wrong"), rule=Loud("acme/x"))]
    response = admissions.respond(
        acmes.JOB, acmes.RUNTIME, phase="validate", policy=admissions.policy_with(acmes.acme(validate=lambda _: said))
    )
    assert response["allowed"] is False
    assert all(
        type(each.message) is str for each in acmes.decide(acmes.acme(validate=lambda _: said), "validate").findings
    )


def test_an_in_tree_strategy_that_raises_is_named_too():
    registry = Registry(DefaultStrategy())
    registry.register(acmes.acme(enforce_command=acmes.raising(ValueError("boom"))))
    decision = admissions.decide(acmes.JOB, acmes.RUNTIME, policy=Policy(registry=registry))
    assert decision.message == "strategy 'acme' (in-tree) failed in enforce_command: ValueError: boom"


def test_a_message_without_end_is_cut():
    decision = acmes.decide(acmes.acme(enforce_command=acmes.raising(ValueError("x" * 1_000_000))))
    assert len(decision.message) < 1000


def test_what_it_had_done_before_is_not_kept():
    def half(job, changes):
        changes.set(acmes.COMMAND, ["half"], **acmes.WHY)
        raise ValueError("boom")

    decision = acmes.decide(acmes.acme(enforce_rendezvous=half))
    assert [*decision.changes] == []
    assert decision.document == acmes.JOB
    assert "patch" not in admissions.respond(
        acmes.JOB, acmes.RUNTIME, policy=admissions.policy_with(acmes.acme(enforce_command=half))
    )


def test_findings_of_a_generator_that_raises_half_way_are_not_kept():
    def validate(job):
        yield error("spec", None, "first", rule="acme/x")
        raise ValueError("boom")

    decision = acmes.decide(acmes.acme(validate=validate), "validate")
    assert (decision.verdict, decision.findings) == ("error", ())


def test_another_framework_is_served_as_ever():
    policy = admissions.policy_with(acmes.acme(enforce_command=acmes.raising(ValueError("boom"))))
    runtime = jobs.make_runtime("acme-runtime", framework="other")
    assert admissions.decide(acmes.JOB, runtime, policy=policy).verdict == "unchanged"


# --- it hangs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", acmes.STAGES)
def test_a_strategy_that_hangs_is_left_behind_when_its_time_is_up(stage):
    hang = threading.Event().wait
    decision = acmes.decide(acmes.acme(**{stage: lambda *_: hang()}), acmes.phase_of(stage), plugin_budget=0.02)
    assert decision.verdict == "error"
    assert decision.message == f"strategy 'acme' ({acmes.ORIGIN}) failed in {stage}: took longer than its 0.02 s"


def spin(*_):
    while True:
        pass


def stubborn(*_):
    for _ in range(3):
        with contextlib.suppress(BaseException):  # as careless code does
            spin()
    spin()


@pytest.mark.parametrize("method", [spin, stubborn])
def test_a_strategy_that_never_stops_computing_is_ended(method):
    assert "took longer" in acmes.decide(acmes.acme(enforce_command=method), plugin_budget=0.02).message


def test_findings_without_end_are_left_behind():
    def endless(job):
        while True:
            yield error("spec", None, "again", rule="acme/x")

    message = acmes.decide(acmes.acme(validate=endless), "validate", plugin_budget=0.02).message
    assert "took longer" in message or "more than 10000 findings" in message  # whichever is reached first


def test_what_it_writes_after_its_time_reaches_nobody():
    def late(job, changes):
        with contextlib.suppress(BaseException):
            spin()
        job.document["spec"]["trainer"]["command"] = ["late"]
        changes.set(("spec", "trainer", "numNodes"), 9, **acmes.WHY)

    document = copy.deepcopy(acmes.JOB)
    decision = admissions.decide(
        document, acmes.RUNTIME, policy=admissions.policy_with(acmes.acme(enforce_command=late), plugin_budget=0.02)
    )
    assert decision.request.document == decision.document == acmes.JOB
    assert [*decision.changes] == []


def test_an_alarm_that_was_set_before_rings_after_a_call_and_its_handler_stays():
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert acmes.decide(acmes.acme()).verdict == "patched"
        while not rung:
            signal.pause()
    finally:
        signal.signal(signal.SIGALRM, handler)


def test_on_another_thread_a_strategy_is_called_without_an_alarm():
    with concurrent.futures.ThreadPoolExecutor() as threads:
        assert threads.submit(acmes.decide, acmes.acme()).result().verdict == "patched"


# --- it has no measure ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("validate", lambda: (error("spec", number, "again", rule="acme/x") for number in range(20_000))),
        ("validate", lambda: [error("spec", 1, "wrong", rule="acme/" + "x" * 1000)]),
    ],
)
def test_more_findings_or_longer_rules_than_anybody_reads_are_a_failure(stage, said):
    decision = acmes.decide(acmes.acme(validate=lambda _: said()), stage, plugin_budget=60)
    assert (decision.verdict, decision.findings) == ("error", ())
    assert len(decision.message) < 1000


def set_often(_, changes):
    for number in range(5000):
        changes.set(acmes.COMMAND, [str(number)], **acmes.WHY)


@pytest.mark.parametrize(
    "method",
    [
        set_often,
        lambda _, changes: changes.set(acmes.COMMAND, ["x"], rule="acme/" + "x" * 1000, reason="because"),
        lambda _, changes: changes.set(acmes.COMMAND, ["x"], rule="acme/x", reason="because " * 1000),
        lambda _, changes: setattr(changes, "_recorded", None),
    ],
    ids=["often", "rule", "reason", "inside"],
)
def test_changes_that_no_record_can_hold_are_a_failure(method):
    decision = acmes.decide(acmes.acme(enforce_command=method), plugin_budget=60)
    assert decision.verdict == "error"
    assert decision.message.startswith(f"strategy 'acme' ({acmes.ORIGIN}) failed in its changes: ")
    assert len(decision.message) < 1000


# --- what a failure means ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("failure", ["deny", "allow"])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("stage", acmes.STAGES)
def test_only_a_create_under_enforcement_is_denied_and_only_if_the_platform_says_so(mode, failure, operation, stage):
    policy = admissions.policy_with(
        acmes.acme(**{stage: acmes.raising(ValueError("boom"))}), mode=mode, on_plugin_failure=failure
    )
    response = admissions.respond(
        acmes.JOB,
        acmes.RUNTIME,
        phase=acmes.phase_of(stage),
        policy=policy,
        operation=operation,
        old=acmes.JOB if operation == "UPDATE" else None,
    )
    denied = mode is Mode.ENFORCE and failure == "deny" and operation == "CREATE"
    assert response["allowed"] is not denied
    assert "patch" not in response
    if denied:
        assert response["status"]["code"] == 500
        assert "strategy 'acme'" in response["status"]["message"]


def test_a_failure_that_lets_the_job_pass_warns_in_one_line():
    policy = admissions.policy_with(
        acmes.acme(enforce_command=acmes.raising(ValueError("boom\n" * 50))), on_plugin_failure="allow"
    )
    (warning,) = admissions.respond(acmes.JOB, acmes.RUNTIME, policy=policy)["warnings"]
    assert warning.startswith("Muster let this pass without enforcing anything: strategy 'acme'")
    assert "\n" not in warning
    assert len(warning) <= answers.MAX_WARNING


def test_a_strategy_of_a_framework_that_is_off_is_not_called():
    assert (
        acmes.decide(acmes.acme(enforce_command=acmes.raising(ValueError("boom"))), mode=Mode.OFF).verdict == "skipped"
    )
