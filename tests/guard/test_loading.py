"""The guard gets into the Python of any image by the first folder of PYTHONPATH, and whatever was there stays."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

GUARD = Path(__file__).parents[2] / "images" / "guard"
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
OTHERS = sorted(PYENV.glob("versions/*/bin/python"))
NEW = [path for path in OTHERS if tuple(map(int, path.parents[1].name.split(".")[:2])) >= (3, 8)]
LOADED = "import sys; print('muster_guard.start' in sys.modules)"


@pytest.fixture
def mounted(tmp_path):
    """The folder of the guard as a container has it: only what is needed, and read-only."""
    folder = tmp_path / "muster" / "guard"
    shutil.copytree(GUARD / "muster_guard", folder / "muster_guard", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("sitecustomize.py", "usercustomize.py"):
        shutil.copy(GUARD / name, folder / name)
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


@pytest.fixture
def run(mounted, tmp_path):
    """Run Python in an environment that has the guard, and folders of its own behind or before it."""

    def begin(*arguments, python=sys.executable, behind=(), before=(), **more):
        path = os.pathsep.join(map(str, (*before, mounted, *behind)))
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, **more}
        return subprocess.run(
            [str(python), *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    return begin


@pytest.fixture
def note(mounted):
    """Write down the PYTHONPATH of the image, as the init container does."""

    def write(value):
        mounted.chmod(0o755)
        (mounted / "env").mkdir()
        (mounted / "env" / "node").write_bytes(os.fsencode(value))
        mounted.chmod(0o555)

    return write


def customize(folder, source, name="sitecustomize"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(source)
    return folder


@pytest.mark.parametrize("python", [sys.executable, *OTHERS], ids=lambda path: Path(path).parents[1].name)
def test_any_python_starts_as_it_did_and_has_the_guard_from_3_8_on(run, tmp_path, python):
    theirs = customize(tmp_path / "theirs", "print('theirs')")

    done = run("-c", LOADED, python=python, behind=[theirs])
    new = run("-c", "import sys; print(sys.version_info >= (3, 8))", python=python).stdout

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"theirs\n{new}"


@pytest.mark.parametrize("python", NEW, ids=lambda path: path.parents[1].name)
def test_each_of_its_modules_can_be_imported_by_every_python_from_3_8_on(run, mounted, python):
    names = sorted(path.stem for path in mounted.glob("muster_guard/*.py") if path.stem != "__main__")

    done = run("-c", "".join(f"import muster_guard.{name}\n" for name in names), python=python)

    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_level_it_reports_and_the_one_inside_an_image_of_muster_enforces(run, tmp_path):
    mode = "import muster_guard.start as s; print(s.MODE)"
    venv.create(tmp_path / "ours", symlinks=True)
    (site,) = (tmp_path / "ours" / "lib").glob("python*/site-packages")
    shutil.copy(GUARD / "muster_guard.pth", site)

    assert run("-c", mode).stdout == "report\n"
    assert run("-c", mode, MUSTER_GUARD="enforce").stdout == "enforce\n"
    assert run("-c", mode, python=tmp_path / "ours" / "bin" / "python").stdout == "enforce\n"


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-IS"])
def test_a_python_that_is_told_to_be_alone_is_alone(run, option):
    done = run(option, "-c", LOADED)

    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.mark.parametrize("option", ["-s", "-P", "-B", "-O", "-OO", "-u"])
def test_other_options_of_python_change_nothing(run, option):
    assert run(option, "-c", LOADED).stdout == "True\n"


@pytest.mark.parametrize("name", ["PYTHONSAFEPATH", "PYTHONNOUSERSITE", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"])
def test_other_variables_of_python_change_nothing(run, name):
    assert run("-c", LOADED, **{name: "1"}).stdout == "True\n"


def test_the_sitecustomize_behind_it_is_the_one_that_programs_see(run, tmp_path, mounted):
    theirs = customize(tmp_path / "theirs", "import sys\nVALUE = 7\nPATH = list(sys.path)")
    code = f"import sitecustomize as s, sys; print(s.VALUE, s.__file__, sys.path.index({str(mounted)!r}))"

    done = run("-c", code, behind=[theirs])

    assert done.stdout == f"7 {theirs}/sitecustomize.py 1\n"


def test_one_of_the_distribution_is_found_as_well(run, tmp_path):
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    site = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    customize(Path(site), "print('of the environment')")

    done = run("-c", LOADED, python=home / "bin" / "python")

    assert done.stdout == "of the environment\nTrue\n"


@pytest.mark.parametrize(
    "source", ["1 / 0", "import no_such_module", "raise ImportError('mine')", "import sys; sys.exit(5)"]
)
def test_what_the_one_behind_it_raises_is_told_by_python_as_it_would_be(run, tmp_path, source):
    theirs = customize(tmp_path / "theirs", source)
    alone = run("-c", "print('the program')", PYTHONPATH=str(theirs))

    done = run("-c", "print('the program')", behind=[theirs])

    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert [line for line in done.stderr.splitlines() if line[:1].strip()] == [
        line for line in alone.stderr.splitlines() if line[:1].strip()
    ], "but for the lines of a traceback"


CHAINING = """
import sys, os
print("theirs")
own = sys.modules.pop("sitecustomize")
place = [os.path.abspath(each) for each in sys.path].index(os.path.dirname(os.path.abspath(__file__)))
removed = sys.path.pop(place)
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = own
finally:
    sys.path.insert(place, removed)
"""
"""As ddtrace's: it imports the next one, which it finds by a path without its own folder."""


@pytest.mark.parametrize("place", ["before", "behind"])
def test_another_that_imports_the_next_one_runs_once_in_either_order(run, tmp_path, place):
    theirs = customize(tmp_path / "theirs", CHAINING)
    last = customize(tmp_path / "last", "print('last')")
    folders = {"before": [theirs], "behind": [last]} if place == "before" else {"behind": [theirs, last]}

    done = run("-c", LOADED, **folders)

    assert (done.stdout, done.stderr) == ("theirs\nlast\nTrue\n", "")


def test_another_that_comes_first_and_imports_no_further_one_does_not_keep_it_out(run, tmp_path):
    theirs = customize(tmp_path / "theirs", "print('theirs')")
    theirs_too = customize(tmp_path / "more", "print('of the user')", "usercustomize")

    done = run("-c", LOADED, before=[theirs], behind=[theirs_too], python=sys._base_executable)

    assert (done.stdout, done.stderr) == ("theirs\nof the user\nTrue\n", "")


def test_the_image_that_has_the_guard_inside_loads_it_once(run, tmp_path):
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    shutil.copytree(GUARD / "muster_guard", site / "muster_guard")
    shutil.copy(GUARD / "muster_guard.pth", site)
    count = "import sys; print(sum(type(each).__name__ == 'Watcher' for each in sys.meta_path))"

    assert run("-c", count, python=home / "bin" / "python").stdout == "1\n"
    assert run("-c", count, python=home / "bin" / "python", PYTHONPATH="").stdout == "1\n"


def test_the_images_own_python_path_comes_where_it_would_have_come(run, note, tmp_path, mounted):
    first, second, shell = (tmp_path / name for name in ("first", "second", "shell"))
    customize(first, "print('of the image')")
    note(f"{first}{os.pathsep}{second}")
    code = "import os, sys; print(os.environ['PYTHONPATH']); print(os.pathsep.join(sys.path))"

    done = run("-c", code, before=[shell])
    alone = run("-c", code, PYTHONPATH=f"{shell}:{first}:{second}")

    assert done.stderr == ""
    assert done.stdout.replace(f"{mounted}:", "") == alone.stdout


def test_children_get_the_images_own_python_path_once_even_without_site(run, note, tmp_path):
    own = tmp_path / "own"
    customize(own, "VALUE = 'of the image'", "theirs")
    note(str(own))
    code = (
        "import subprocess, sys\n"
        "run = lambda *more: print(subprocess.check_output([sys.executable, *more]).decode())\n"
        "run('-S', '-c', 'import theirs; print(theirs.VALUE)')\n"
        "run('-c', 'import os; print(os.environ[\"PYTHONPATH\"])')\n"
    )

    done = run("-c", code)

    assert done.stdout.splitlines()[0] == "of the image"
    assert done.stdout.count(str(own)) == 1


def test_an_empty_entry_of_the_images_python_path_is_the_current_folder(run, note, tmp_path):
    customize(tmp_path, "VALUE = 3", "besides")
    note("/nowhere:")

    assert run("-P", "-c", "import besides; print(besides.VALUE)").stdout == "3\n"


def test_an_empty_python_path_of_the_image_adds_nothing(run, note, tmp_path):
    customize(tmp_path, "VALUE = 3", "besides")
    note("")

    assert "No module named 'besides'" in run("-P", "-c", "import besides").stderr


@pytest.mark.parametrize("path", ["", None])
def test_a_shell_that_empties_or_removes_the_path_has_no_guard_and_no_harm(mounted, path, tmp_path):
    environment = {} if path is None else {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_have_it_too(run, tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, sys\n"
        "def child(): print('muster_guard.start' in sys.modules, flush=True)\n"
        "if __name__ == '__main__':\n"
        f"    process = multiprocessing.get_context({method!r}).Process(target=child)\n"
        "    process.start(); process.join(); print(process.exitcode)\n"
    )

    done = run(str(program))

    assert (done.stdout, done.stderr) == ("True\n0\n", "")


def test_a_guard_that_cannot_start_is_told_once_and_the_program_runs(run, mounted, tmp_path):
    (mounted / "muster_guard" / "start.py").chmod(0o644)
    (mounted / "muster_guard" / "start.py").write_text("raise RuntimeError('broken')")
    theirs = customize(tmp_path / "theirs", "print('theirs')")

    done = run("-c", "print('the program')", behind=[theirs])

    assert (done.returncode, done.stdout) == (0, "theirs\nthe program\n")
    assert done.stderr == "muster: the guard is not active in this process: RuntimeError('broken')\n"


def test_a_process_without_stderr_is_not_harmed_by_what_the_guard_would_say(mounted, tmp_path):
    (mounted / "muster_guard" / "start.py").chmod(0o644)
    (mounted / "muster_guard" / "start.py").write_text("raise RuntimeError('broken')")
    command = f'exec "{sys.executable}" -c "print(1)" 2>&-'

    done = subprocess.run(
        ["/bin/sh", "-c", command], env={"PYTHONPATH": str(mounted)}, stdout=subprocess.PIPE, check=False, text=True
    )

    assert (done.returncode, done.stdout) == (0, "1\n")


def test_no_other_module_can_be_imported_from_its_folder(mounted):
    assert {path.stem for path in mounted.iterdir()} == {"muster_guard", "sitecustomize", "usercustomize"}
