"""A third-party framework, `acme`, and a correct strategy for it whose methods a test can replace."""

from __future__ import annotations

import copy

from muster.webhook.admission.policies import Mode
from tests.support import admissions, jobs, plugins

ORIGIN = "muster-strategy-test 1.0"
JOB = jobs.make_trainjob(command=["acme", "run"], runtime="acme-runtime", env=[{"name": "A", "value": "1"}])
RUNTIME = jobs.make_runtime("acme-runtime", framework="acme")
WHY = {"rule": "acme/rule", "reason": "because"}
STAGES = ("enforce_command", "enforce_rendezvous", "enforce_claims", "validate")
COMMAND = ("spec", "trainer", "command")


def well(job, changes):
    changes.set(COMMAND, [*job.trainer.command, "--well"], **WHY)


def acme(**methods):
    """A correct strategy, except for these methods."""
    return plugins.make_strategy("acme", "7", **{"enforce_command": well, **methods})


def decide(plugin, phase="mutate", *, mode=Mode.ENFORCE, **policy):
    return admissions.decide(
        copy.deepcopy(JOB), RUNTIME, phase=phase, policy=admissions.policy_with(plugin, mode=mode, **policy)
    )


def phase_of(stage):
    return "validate" if stage == "validate" else "mutate"


def raising(what):
    def method(*_):
        raise what

    return method
