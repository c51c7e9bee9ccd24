"""Command lines that no kernel can start, or that only a shell would understand; names that no pod may have."""

from __future__ import annotations

import pytest

from tests.support import admissions, jobs

RULES = {"core/no-shell", "core/not-executable", "core/name"}


def found(container, volumes=()):
    job = jobs.make_jobset(container=container)
    pod = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["volumes"] = list(volumes)
    findings = admissions.decide(job, phase="validate").findings
    return [(each.severity.value, each.rule) for each in findings if each.rule in RULES]


SHELL_WORDS = {
    "an assignment": (["OMP_NUM_THREADS=8", "torchrun", "x.py"], "error"),
    "a builtin": (["cd", "/workspace"], "error"),
    "an operator behind pip": (["pip", "install", "x", "&&", "torchrun", "x.py"], "error"),
    "an operator behind torchrun": (["torchrun", "x.py", "&&", "echo", "done"], "warning"),
    "a redirection": (["python", "x.py", "2>&1"], "warning"),
}


@pytest.mark.parametrize(("command", "severity"), SHELL_WORDS.values(), ids=SHELL_WORDS)
def test_words_of_a_shell_without_a_shell_are_told(command, severity):
    assert found({"command": command}) == [(severity, "core/no-shell")]


def test_an_operator_in_the_args_is_told_as_well():
    assert found({"command": ["torchrun"], "args": ["x.py", "&&", "date"]}) == [("warning", "core/no-shell")]


QUIET = {
    "a shell": ["bash", "-c", "cd /workspace && A=1 torchrun x.py"],
    "a value that looks like an operator": ["python", "x.py", "--separator", "|", "--end", ";"],
    "a program that runs its words elsewhere": ["kubectl", "exec", "pod", "--", "a", "&&", "b"],
    "env": ["env", "A=1", "torchrun", "x.py"],
    "a path with =": ["/opt/a=b/run", "x"],
}


@pytest.mark.parametrize("command", QUIET.values(), ids=QUIET)
def test_words_that_a_program_understands_are_silent(command):
    assert found({"command": command}) == []


MOUNT = {"command": ["/scripts/run.sh"], "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}]}


def volume(kind="configMap", **source):
    return {"name": "scripts", kind: source}


DEAD = {
    "a ConfigMap": volume(name="s"),
    "a Secret": volume("secret", secretName="s"),
    "a mode without the bit": volume(name="s", defaultMode=0o640),
    "projected": volume("projected", sources=[{"configMap": {"name": "s"}}]),
}


@pytest.mark.parametrize("held", DEAD.values(), ids=DEAD)
def test_a_file_without_an_execute_bit_starts_nothing(held):
    assert found(MOUNT, [held]) == [("error", "core/not-executable")]


ALIVE = {
    "a mode for all files": volume(name="s", defaultMode=0o755),
    "a mode for one file": volume(name="s", items=[{"key": "run.sh", "path": "run.sh", "mode": 0o555}]),
    "a mode inside of a projected volume": volume(
        "projected", sources=[{"configMap": {"name": "s", "items": [{"key": "r", "path": "run.sh", "mode": 493}]}}]
    ),
    "another kind of volume": volume("emptyDir"),
}


@pytest.mark.parametrize("held", ALIVE.values(), ids=ALIVE)
def test_a_file_that_may_have_the_bit_is_silent(held):
    assert found(MOUNT, [held]) == []


def test_an_interpreter_needs_no_bit_and_another_folder_is_not_the_volumes():
    assert found({**MOUNT, "command": ["bash", "/scripts/run.sh"]}, [volume(name="s")]) == []
    assert found({**MOUNT, "command": ["/scripts-of-the-image/run.sh"]}, [volume(name="s")]) == []


def test_the_innermost_mount_holds_the_file():
    mounts = [{"name": "scripts", "mountPath": "/opt"}, {"name": "bin", "mountPath": "/opt/bin"}]
    container = {"command": ["/opt/bin/run"], "volumeMounts": mounts}
    assert found(container, [volume(name="s"), {"name": "bin", "emptyDir": {}}]) == []


def test_the_command_of_a_trainjob_is_judged_where_it_is_written():
    runtime = jobs.make_runtime(framework=None)
    job = jobs.make_trainjob(command=["A=1", "torchrun"])
    findings = admissions.decide(job, runtime, phase="validate").findings
    assert [each.field for each in findings if each.rule in RULES] == ["spec.trainer.command[0]"]
