"""Launches: every spelling of a command line that people use is read for what it starts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.launches.launches import MAX_WORDS, Launcher, parse
from tests.support import limits

TORCHRUN = {
    "a long option with =": ("torchrun --nproc_per_node=4 x.py", {"nproc_per_node": "4"}),
    "a long option with a space": ("torchrun --nproc_per_node 4 x.py", {"nproc_per_node": "4"}),
    "dashes for underscores": ("torchrun --nproc-per-node 4 x.py", {"nproc_per_node": "4"}),
    "an option cut short": ("torchrun --nproc=4 --stand x.py", {"nproc_per_node": "4", "standalone": ""}),
    "an ambiguous abbreviation stays what it is": ("torchrun --rdzv=h x.py", {"rdzv": "h"}),
    "a short option with its value attached": ("torchrun -r3 -t=1 x.py", {"redirects": "3", "tee": "1"}),
    "a short option with a space": ("torchrun -t 0:1 x.py", {"tee": "0:1"}),
    "a switch takes no value": ("torchrun --standalone x.py", {"standalone": ""}),
    "the last of two values wins": ("torchrun --nnodes 2 --nnodes 1:4 x.py", {"nnodes": "1:4"}),
    "a missing value": ("torchrun --nnodes --standalone x.py", {"nnodes": "", "standalone": ""}),
    "two dashes end the options": ("torchrun --nnodes 2 -- x.py", {"nnodes": "2"}),
    "another folder": ("/opt/conda/bin/torchrun --nnodes 2 x.py", {"nnodes": "2"}),
    "the module of torchrun": ("python -m torch.distributed.run --nnodes 2 x.py", {"nnodes": "2"}),
    "its old module": ("python3 -m torch.distributed.launch --use_env --nnodes=2 x.py", {"use_env": "", "nnodes": "2"}),
    "an interpreter with options": (
        "python3.11 -u -W ignore -X dev -m torch.distributed.run --nnodes=2 x.py",
        {"nnodes": "2"},
    ),
    "options run together with -m": ("python -um torch.distributed.run --nnodes=2 x.py", {"nnodes": "2"}),
}


@pytest.mark.parametrize(("line", "values"), TORCHRUN.values(), ids=TORCHRUN)
def test_torchrun_is_read_in_every_spelling(line, values):
    launch = parse([*line.split(), "--nnodes", "9"])
    assert (launch.launcher, dict(launch.values)) == (Launcher.TORCHRUN, values)
    assert (launch.target, launch.rest) == ("x.py", ("--nnodes", "9"))
    assert not launch.module


@pytest.mark.parametrize("switch", ["-m", "--module"])
def test_a_module_under_torchrun_is_told_from_a_file(switch):
    launch = parse(["torchrun", "--nnodes=2", switch, "trl.scripts.sft", "-m", "x"])
    assert launch.module
    assert (launch.options, launch.target, launch.rest) == (("--nnodes=2",), "trl.scripts.sft", ("-m", "x"))


def test_a_program_under_torchrun_keeps_the_word_that_says_so():
    launch = parse(["torchrun", "--no-python", "trl", "sft"])
    assert (launch.options, launch.target, launch.rest) == (("--no-python",), "trl", ("sft",))


OTHERS = {
    "nothing": ("", Launcher.NONE, (), "", ()),
    "trl": ("trl sft --lr 1", Launcher.TRL, ("trl",), "sft", ("--lr", "1")),
    "trl in a folder": ("/venv/bin/trl dpo", Launcher.TRL, ("/venv/bin/trl",), "dpo", ()),
    "trl as a module": ("python -m trl sft", Launcher.TRL, ("python", "-m", "trl"), "sft", ()),
    "trl without a method": ("trl --version", Launcher.TRL, ("trl",), "", ("--version",)),
    "accelerate": ("accelerate launch --cpu t.py a", Launcher.ACCELERATE, ("accelerate", "launch"), "t.py", ("a",)),
    "another command of accelerate": ("accelerate env", Launcher.ACCELERATE, ("accelerate",), "env", ()),
    "accelerate-launch": ("accelerate-launch t.py", Launcher.ACCELERATE, ("accelerate-launch",), "t.py", ()),
    "accelerate as a module": (
        "python -m accelerate.commands.launch t.py",
        Launcher.ACCELERATE,
        ("python", "-m", "accelerate.commands.launch"),
        "t.py",
        (),
    ),
    "tune run": ("tune run --nnodes 2 full --config c", Launcher.TUNE, ("tune", "run"), "full", ("--config", "c")),
    "tune run and no more": ("tune run", Launcher.TUNE, ("tune", "run"), "", ()),
    "another command of tune": ("tune download m", Launcher.TUNE, ("tune",), "download", ("m",)),
    "vllm serve": ("vllm serve m --port 1", Launcher.VLLM, ("vllm",), "serve", ("m", "--port", "1")),
    "a shell": ("bash -c torchrun", Launcher.SHELL, ("bash",), "", ("-c", "torchrun")),
    "a shell in a folder": ("/bin/sh x.sh", Launcher.SHELL, ("/bin/sh",), "", ("x.sh",)),
    "a script": ("python x.py -m y", Launcher.PYTHON, ("python",), "x.py", ("-m", "y")),
    "an interpreter's value is not the script": (
        "python -W ignore -Xdev --check-hash-based-pycs never x.py",
        Launcher.PYTHON,
        ("python", "-W", "ignore", "-Xdev", "--check-hash-based-pycs", "never"),
        "x.py",
        (),
    ),
    "a text for python": ("python -c pass a", Launcher.PYTHON, ("python",), "-c", ("pass", "a")),
    "a script from standard input": ("python - a", Launcher.PYTHON, ("python",), "-", ("a",)),
    "python alone": ("python3", Launcher.PYTHON, ("python3",), "", ()),
    "python -m and no more": ("python -m", Launcher.PYTHON, ("python",), "", ()),
    "what only begins like python": ("python-wrapper x.py", Launcher.OTHER, ("python-wrapper",), "", ("x.py",)),
    "deepspeed": ("deepspeed --num_gpus 4 x.py a", Launcher.DEEPSPEED, ("deepspeed",), "x.py", ("a",)),
    "composer": ("composer -n 4 x.py a", Launcher.COMPOSER, ("composer",), "x.py", ("a",)),
    "mpirun": ("mpirun -np 4 --mca a b -x C python x.py", Launcher.MPI, ("mpirun",), "python", ("x.py",)),
    "horovodrun": ("horovodrun -np 4 -H a:2 python x.py", Launcher.MPI, ("horovodrun",), "python", ("x.py",)),
    "fabric": ("fabric run x.py --devices 2 --lr 1", Launcher.FABRIC, ("fabric", "run"), "x.py", ("--lr", "1")),
    "ray": (
        "ray job submit --working-dir . -- python x.py",
        Launcher.RAY,
        ("ray", "job", "submit"),
        "python",
        ("x.py",),
    ),
    "an unknown program": ("slurmd x.py", Launcher.OTHER, ("slurmd",), "", ("x.py",)),
}


@pytest.mark.parametrize(("line", "launcher", "head", "target", "rest"), OTHERS.values(), ids=OTHERS)
def test_a_launcher_is_known_by_its_program(line, launcher, head, target, rest):
    launch = parse(line.split())
    assert (launch.launcher, launch.head, launch.target, launch.rest) == (launcher, head, target, rest)


def test_a_module_of_python_is_told_from_a_file():
    launch = parse(["python", "-I", "-m", "pkg.train", "--lr", "1"])
    assert (launch.head, launch.module, launch.target, launch.rest) == (
        ("python", "-I"),
        True,
        "pkg.train",
        ("--lr", "1"),
    )
    assert parse(["python", "-mpkg"]).target == "pkg"


STARTS = {
    "torchrun itself": ("torchrun x.py", True),
    "tune run": ("tune run full", True),
    "another command of tune": ("tune ls", False),
    "a word of a shell's text": ("bash -c torchrun\tx.py", False),
    "a word behind an unknown program": ("launcher torchrun x.py", False),
    "a program called with the word": ("python x.py torchrun", False),
}


@pytest.mark.parametrize(("line", "starts"), STARTS.values(), ids=STARTS)
def test_torchrun_is_never_guessed_from_a_word(line, starts):
    assert parse([word.replace("\t", " ") for word in line.split(" ")]).starts_torchrun is starts


WORDS = st.sampled_from(
    (
        *("torchrun", "python", "python3.11", "trl", "tune", "run", "vllm", "serve", "accelerate", "bash", "-c", "-m"),
        *("--module", "--", "-", "-r3", "--nnodes", "--nnodes=2", "--standalone", "--config", "-W", "-X", "-u", "x.py"),
        *(
            "torch.distributed.run",
            "trl.scripts.sft",
            "sft",
            "",
            "=",
            "--=",
            "---",
            "1:2",
            "$(X)",
            "é\n",
            "/",
            "-\u0663",
        ),
    )
)


@given(st.lists(WORDS | st.text(max_size=5), max_size=9))
@limits.MANY
def test_no_input_is_too_odd_and_no_word_is_lost(argv):
    launch = parse(argv)
    read = Counter((*launch.head, *launch.options, launch.target, *launch.rest))
    missing = Counter(argv) - read
    attached = {word for word in argv if word.startswith("-") and not word.startswith("--") and "m" in word}
    assert set(missing) <= {"-m", "--module", "--", ""} | attached
    assert launch.target in argv or not launch.target or attached
    assert (launch.launcher is Launcher.NONE) == (not argv)


def test_a_command_line_of_absurd_length_is_not_looked_into():
    words = ["torchrun", *["x"] * MAX_WORDS]
    assert parse(words).launcher is Launcher.OTHER
    assert parse(words[:-1]).launcher is Launcher.TORCHRUN
