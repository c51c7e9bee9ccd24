"""The real entry point, in a process of its own: exit codes, quick starts, quiet ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib

import pytest

from muster.webhook.cli import main
from tests.cli import jobs

JOB = jobs.stream(jobs.two_nodes()).encode()
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(jobs.EXAMPLES.parents[1]), "PYTHONUNBUFFERED": ""}
HEAVY = {"aiohttp", "prometheus_client", "pydantic", "cryptography", "torch"}
# Runs a command and then prints which modules it has imported.
PROBE = """
import contextlib, io, sys
from muster.webhook.cli import main
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.suppress(SystemExit):
    main.main(sys.argv[1:])
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
print(" ".join(sorted(name for name in sys.modules if name.startswith("muster.webhook."))))
"""


def imported(process, *args):
    done = process(*args, stdin=JOB, program=PROBE)
    assert done.returncode == 0, done.stderr
    packages, modules = done.stdout.decode().splitlines()
    return set(packages.split()), set(modules.split())


@pytest.mark.parametrize(
    "args",
    [
        ["--version"],
        ["render", "-f", "-"],
        ["render", "-f", "-", "--jobset", "-o", "diff"],
        ["check", "-f", "-"],
        ["check", "-f", "-", "-o", "junit"],
        ["explain", "-f", "-"],
        ["strategies"],
        ["demo"],
        ["init", "trl-sft"],
        ["review"],
        ["audit", "ls", "-"],
        ["audit", "verify", "-"],
    ],
    ids=" ".join,
)
def test_offline_commands_import_no_server_and_no_client(process, args):
    packages, _ = imported(process, *args)
    assert not packages & HEAVY


@pytest.mark.parametrize("command", ["install", "upgrade", "uninstall"])
def test_the_installer_imports_no_server_and_no_client(process, tmp_path, command):
    packages, modules = imported(process, command, "--kubectl", tmp_path / "none")
    assert "muster.webhook.installer.installation_steps" in modules
    assert not packages & {"aiohttp", "prometheus_client"}


def test_a_check_runs_the_modules_that_its_job_needs(process):
    probe = PROBE.replace("main.main(sys.argv[1:])", "main.main()").replace(
        'if name.startswith("muster.webhook.")',
        'if name.startswith("muster.") and type(sys.modules[name]) is type(sys)',
    )
    done = process("check", "-f", "-", stdin=JOB, program=probe)
    assert done.returncode == 0, done.stderr
    run = done.stdout.decode().splitlines()[1].split()
    assert "muster.strategies.frameworks.trl.trl_strategy" in run
    assert not {name for name in run if name.startswith("muster.webhook.cli.related.queues")}
    assert len(run) <= 170


def test_the_version_needs_no_more_than_the_parser(process):
    packages, modules = imported(process, "--version")
    assert modules == {
        "muster.webhook.cli",
        "muster.webhook.cli.main",
        "muster.webhook.cli.commandline",
        "muster.webhook.cli.problems",
    }
    assert not packages & {"yaml", "orjson"}


def test_the_version_is_printed(process):
    done = process("--version")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"muster ")


@pytest.mark.parametrize(
    ("args", "stdin", "code"),
    [
        (["check", "-f", "-"], JOB, 0),
        (["check", "-f", "-"], jobs.stream(jobs.trainjob(numNodes=0)).encode(), 1),
        (["check", "-f", "-"], b"a: [", 2),
        (["check", "-f", "-"], b"\xff\xfe", 2),
        (["render", "-f", "-"], JOB, 0),
        (["render", "-f", "missing.yaml"], b"", 2),
        (["render"], b"", 2),
        (["render", "-f", "-", "-o", "xml"], b"", 2),
        (["explain", "-f", "."], b"", 2),
        (["nonsense"], b"", 2),
        (["review"], b"{}", 2),
        (["audit", "show", "-"], b"", 2),
        (["serve", "--config", "missing.yaml"], b"", 2),
        (["--help"], b"", 0),
    ],
)
def test_exit_codes_tell_and_errors_are_lines_that_begin_with_muster(process, args, stdin, code):
    done = process(*args, stdin=stdin)
    assert done.returncode == code
    if code == 2:
        lines = done.stderr.decode().splitlines()
        assert lines
        assert all(line.startswith("muster: ") for line in lines if " jobs: " not in line)


@pytest.mark.parametrize("args", [[], ["audit"]], ids=" ".join)
def test_without_a_command_the_help_is_shown_and_it_is_no_success(process, args):
    """`muster $ARGS` with an empty variable must not pass in CI."""
    done = process(*args)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == process(*args, "--help").stdout
    assert done.stderr.startswith(f"usage: {' '.join(['muster', *args])} ".encode())
    assert process(*args, "--").stderr == done.stderr


@pytest.mark.parametrize("option", ["-v", "--version"])
@pytest.mark.parametrize("command", [[], ["check"], ["audit"], ["audit", "ls"], ["serve"]], ids=" ".join)
def test_every_command_tells_the_version(muster, command, option):
    result = muster(*command, option)
    assert (result.code, result.out) == (0, muster("--version").out)
    assert result.out.startswith("muster ")


@pytest.mark.parametrize("name", ["kubectl-muster", "/usr/local/bin/kubectl-muster", "kubectl-muster.exe"])
def test_a_plugin_of_kubectl_calls_itself_as_people_call_it(muster, monkeypatch, name):
    monkeypatch.setattr(sys, "argv", [name])
    assert muster("check", "--help").out.startswith("usage: kubectl muster check ")
    assert "see `kubectl muster check --help`" in muster("check", "-o", "nothing").err
    monkeypatch.setattr(sys, "argv", ["/opt/muster/bin/muster"])
    assert muster("check", "--help").out.startswith("usage: muster check ")


def test_both_names_are_entry_points():
    scripts = tomllib.loads((jobs.EXAMPLES.parents[1] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-muster"] == scripts["muster"] == "muster.webhook.cli.main:main"


def test_output_is_utf_8_whatever_the_locale_says(process):
    job = jobs.two_nodes(metadata={"annotations": {"note": "größer"}})
    done = process("render", "-f", "-", stdin=jobs.stream(job).encode(), env=[("PYTHONIOENCODING", "ascii")])
    assert done.returncode == 0
    assert "note: größer\n" in done.stdout.decode("utf-8")


@pytest.mark.parametrize("size", [1, 100_000], ids=["found at the end", "found while writing"])
def test_a_closed_pipe_ends_the_command_quietly(tmp_path, size):
    (tmp_path / "jobs.yaml").write_text(jobs.stream(jobs.configmap(text="x" * size)))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "muster", "render", "-f", str(tmp_path / "jobs.yaml")],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        env=ENVIRONMENT,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_output_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "jobs.yaml").write_bytes(JOB)
    with (tmp_path / "jobs.yaml").open("rb") as read_only:
        done = subprocess.run(
            [sys.executable, "-m", "muster", "render", "-f", str(tmp_path / "jobs.yaml")],
            stdout=read_only,
            stderr=subprocess.PIPE,
            check=False,
            env=ENVIRONMENT,
        )
    assert (done.returncode, done.stderr) == (2, b"muster: [Errno 9] Bad file descriptor\n")


def test_ctrl_c_ends_the_command_quietly(tmp_path):
    fifo = tmp_path / "endless"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "muster", "check", "-f", str(fifo)]
    with (
        subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  # CI may ignore it
        ) as running,
        fifo.open("wb"),  # opens when the command has begun to read
    ):
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
    assert (running.returncode, errors) == (130, b"")


def test_a_server_that_is_told_to_end_while_it_starts_ends_then(tmp_path):
    """As the first process of a container, where a signal without a handler is lost."""
    with subprocess.Popen(
        [sys.executable, "-m", "muster", "serve", "--config", str(tmp_path / "missing.yaml")],
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),  # noqa: PLW1509  # as the kernel does there
    ) as running:
        while running.poll() is None:
            running.send_signal(signal.SIGTERM)
            time.sleep(0.01)
        _, errors = running.communicate(timeout=30)
    assert (running.returncode, errors) == (143, b"")


def test_serve_hands_its_options_to_the_server(monkeypatch, tmp_path):
    from muster.webhook.server import run  # noqa: PLC0415  # imports the server, as only this command does

    calls = []
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(run, "serve", lambda path, *, self_signed: calls.append((path, self_signed)) or 7)
    assert main.main(["serve", "--config", str(tmp_path / "c.yaml"), "--self-signed"]) == 7
    assert main.main(["serve"]) == 7
    assert calls == [(tmp_path / "c.yaml", True), (None, False)]


def test_strategies_are_listed_with_framework_version_origin_and_what_they_do(muster):
    entries = {entry["framework"]: entry for entry in muster("strategies", "-o", "json").json()}
    assert set(entries) >= {"torch", "torchtune", "trl", "vllm", "default"}
    assert entries["trl"]["origin"] == "in-tree"
    assert all(entry["version"] and entry["description"] for entry in entries.values())
    table = muster("strategies").out
    assert table.splitlines()[0].split() == ["FRAMEWORK", "VERSION", "ORIGIN", "WHAT", "IT", "DOES"]


def test_a_plugin_that_cannot_be_loaded_ends_the_command_with_its_name(muster, monkeypatch, tmp_path):
    folder = tmp_path / "plugin-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[muster.strategies]\nbroken = no.such.module:Strategy\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = muster("check", "-f", "-", stdin=JOB)
    assert result.code == 2
    assert "muster: entry point broken = no.such.module:Strategy" in result.err
