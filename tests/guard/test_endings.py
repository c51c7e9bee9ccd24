"""How a process and its launcher end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GUARD = Path(__file__).parents[2] / "images" / "guard"
START = "import muster_guard.start\n"
FAIL = START + "from muster_guard import endings; endings.fail('muster: too small')"
CLEAR = START + "from muster_guard import endings; endings.clear()"


@pytest.fixture
def message(tmp_path):
    """The file of the termination message, as the kubelet makes it."""
    path = tmp_path / "termination-log"
    path.touch()
    return path


@pytest.fixture
def run(tmp_path, message):
    """Run Python code as the first process of a container."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(GUARD),
        "TMPDIR": str(tmp_path),
        "MUSTER_TERMINATION_LOG": str(message),
    }

    def begin(code, **more):
        return subprocess.run(
            [sys.executable, "-c", code], env={**environment, **more}, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    return begin


def launching(*codes: str, exit_code: int = 1) -> str:
    """Code of a launcher that runs these one after the other and ends with a code of its own."""
    runs = "".join(f"subprocess.run([sys.executable, '-c', {code!r}])\n" for code in codes)
    return f"{START}import subprocess, sys\n{runs}sys.exit({exit_code})"


def test_a_failure_has_the_fixed_code_and_says_why_in_the_log_and_to_kubernetes(run, message):
    done = run(FAIL)

    assert done.returncode == 78
    assert done.stderr == "muster: too small\n"
    assert message.read_text() == "muster: too small\n"


def test_a_launcher_ends_with_the_code_of_its_ranks_and_the_message_is_there_once(run, message, tmp_path):
    done = run(launching(FAIL, FAIL))

    assert done.returncode == 78
    assert message.read_text() == "muster: too small\n"
    assert list(tmp_path.glob("muster-guard-*")) == []


def test_a_launcher_of_a_launcher_does_not_keep_it_from_the_first(run):
    assert run(launching(launching(FAIL))).returncode == 78


def test_a_launcher_whose_ranks_failed_otherwise_keeps_its_code(run):
    assert run(launching(START + "raise SystemExit(3)", exit_code=5)).returncode == 5


def test_a_second_attempt_of_the_right_size_makes_good_the_first(run):
    assert run(launching(FAIL, CLEAR, exit_code=0)).returncode == 0


def test_what_the_launcher_had_to_print_is_printed(run):
    done = run(launching(FAIL).replace("sys.exit(1)", "print('last words')"))

    assert done.returncode == 78
    assert done.stdout == "last words\n"


def test_no_file_is_made_where_kubernetes_made_none(run, message):
    message.unlink()

    assert run(FAIL).returncode == 78
    assert not message.exists()


def test_a_termination_message_stays_within_what_the_kubelet_reads(run, message):
    message.write_text("x" * 4090)

    run(FAIL)

    assert message.read_text() == "x" * 4090


def test_switched_off_it_does_nothing_at_all(run):
    done = run(START + "import sys; print([type(each).__module__ for each in sys.meta_path])", MUSTER_GUARD="off")

    assert "muster_guard" not in done.stdout


def test_a_process_that_never_trains_imports_nothing_but_the_watch(run):
    loaded = "import atexit, sys; atexit._run_exitfuncs(); print(*sys.modules)"
    alone = set(run(loaded, PYTHONPATH="").stdout.split())

    assert set(run(loaded).stdout.split()) - alone == {
        "muster_guard", "muster_guard.start", "muster_guard.watches", "sitecustomize",
    }  # fmt: skip
