"""A strategy of somebody else may fail in any way: it is named, nothing of its work is kept, the service lives on."""

from __future__ import annotations

import contextlib
import copy
import threading

import pytest

from muster.strategies import error
from muster.strategies.frameworks.default import DefaultStrategy
from muster.strategies.plugins.registry import Registry
from muster.webhook.admission import Mode, Policy, answers, guards
from tests.support import acmes, admissions, jobs


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


@pytest.fixture
def gate():
    """A gate that hanging strategies wait at; it opens at the end of the test, and all their threads end."""
    gate = threading.Event()
    before = threading.active_count()
    yield gate
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("strategy-"):
            thread.join(5)
    assert threading.active_count() <= before


@pytest.mark.parametrize("stage", acmes.STAGES)
def test_a_strategy_that_hangs_is_left_behind_when_its_time_is_up(gate, stage):
    decision = acmes.decide(acmes.acme(**{stage: lambda *_: gate.wait()}), acmes.phase_of(stage), plugin_budget=0.02)
    assert decision.verdict == "error"
    assert decision.message == f"strategy 'acme' ({acmes.ORIGIN}) failed in {stage}: took longer than its 0.02 s"


def test_a_strategy_that_never_stops_computing_is_left_behind(gate):
    def spin(job, changes):
        while not gate.is_set():
            pass

    assert "took longer" in acmes.decide(acmes.acme(enforce_command=spin), plugin_budget=0.02).message


def test_findings_without_end_are_left_behind(gate):
    def endless(job):
        while not gate.is_set():
            yield error("spec", None, "again", rule="acme/x")

    assert "took longer" in acmes.decide(acmes.acme(validate=endless), "validate", plugin_budget=0.02).message


def test_what_it_writes_after_its_time_reaches_nobody(gate):
    done = threading.Event()

    def late(job, changes):
        with contextlib.suppress(BaseException):  # it does not let itself be ended
            gate.wait()
        job.document["spec"]["trainer"]["command"] = ["late"]
        changes.set(("spec", "trainer", "numNodes"), 9, **acmes.WHY)
        done.set()

    document = copy.deepcopy(acmes.JOB)
    decision = admissions.decide(
        document, acmes.RUNTIME, policy=admissions.policy_with(acmes.acme(enforce_command=late), plugin_budget=0.02)
    )
    gate.set()
    assert done.wait(60)
    assert decision.request.document == decision.document == acmes.JOB
    assert [*decision.changes] == []


def test_with_too_many_threads_behind_it_is_not_called_until_they_are_gone(gate):
    calls = []

    def hang(job, changes):
        calls.append(1)
        gate.wait()

    plugin = acmes.acme(enforce_command=hang)
    messages = [acmes.decide(plugin, plugin_budget=0.01).message for _ in range(guards.MAX_STRAY + 2)]
    assert len(calls) == guards.MAX_STRAY
    assert "it is not called" in messages[-1]
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("strategy-"):
            thread.join(5)
    assert acmes.decide(plugin).verdict == "unchanged"


@pytest.mark.parametrize(
    ("stage", "again"),
    [
        ("validate", lambda _: error("spec", None, "again", rule="acme/x")),
        ("enforce_command", lambda changes: changes.set(acmes.COMMAND, [*acmes.COMMAND], **acmes.WHY)),
        ("enforce_claims", lambda changes: changes.report(error("spec", None, "again", rule="acme/x"))),
    ],
)
# Hypothesis counts the collector's seconds in a callback, and what ends a thread may be raised in there and be lost.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_goes_on_without_end_is_ended_when_its_time_is_up(gate, stage, again):
    ended = threading.Event()

    def endless(_, changes=None):
        try:
            while not gate.is_set():
                again(changes)
        finally:
            ended.set()

    plugin = acmes.acme(**{stage: endless})
    assert "took longer" in acmes.decide(plugin, acmes.phase_of(stage), plugin_budget=0.02).message
    for _ in range(60):
        if ended.wait(1):
            break
        acmes.decide(plugin, acmes.phase_of(stage), plugin_budget=0.02)  # what was lost is told again
    assert ended.is_set()
    assert not gate.is_set()


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
