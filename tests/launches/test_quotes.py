"""Findings quote of a command line what Muster knows it by, since any other word may be a secret."""

from __future__ import annotations

import pytest

from muster.strategies.launches import launches, quotes, readings

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["bash", "-c", f"login {SECRET}"], "bash -c"),
        (["/bin/sh", "-euxc", f"login {SECRET}", SECRET], "/bin/sh -euxc"),
        (["bash", "--rcfile=x", "-c", SECRET], "bash --rcfile -c"),
        (["bash", "train.sh", SECRET], "bash train.sh"),
        (["secret-run", SECRET, "--zz"], "secret-run"),
        ([f"trl sft --hub {SECRET}"], "trl …"),
        (["python", "-c", f"login('{SECRET}')"], "python -c"),
        (["python", f"-clogin('{SECRET}')"], "python -c"),
        (["python", "train.py", SECRET], "python train.py"),
        (["python", "-m", "my.server", SECRET], "python my.server"),
        (["accelerate", "launch", "train.py", SECRET], "accelerate launch train.py"),
        (["x" * 60], "x" * 37 + "..."),
        ([], None),
    ],
    ids=str,
)
def test_a_command_is_quoted_without_its_arguments(argv, shown):
    assert quotes.command(argv) == shown


def test_a_launch_is_quoted_with_its_options_and_without_the_arguments_of_its_program():
    read = launches.parse(["torchrun", "--nnodes", "2", "train.py", "--key", SECRET])
    assert quotes.launch(read) == "torchrun --nnodes 2 train.py"


def test_a_quote_ends_with_a_whole_word():
    read = launches.parse(["torchrun", *(f"--rdzv_conf=k{number}={SECRET}" for number in range(30)), "train.py"])
    assert quotes.launch(read).endswith(f"{SECRET} …")


@pytest.mark.parametrize(
    "argv",
    [
        ["bash", "-c", f"set -- {SECRET}; unset {SECRET}; torchrun train.py"],
        ["bash", "-c", f"torchrun ${{X:-{SECRET}}} train.py"],
        ["bash", "-c", f"torchrun $(login {SECRET}) train.py"],
        ["bash", "-c", f"$(login {SECRET}) train.py"],
        ["env", f"-u{SECRET}x", f"-Z{SECRET}", "torchrun", "train.py"],
        ["nohup", f"--odd{SECRET[0]}={SECRET}", "torchrun", "train.py"],
        ["unheard-of", SECRET],
        ["unheard-of " + SECRET],
    ],
    ids=str,
)
def test_what_cannot_be_read_is_told_without_the_words_of_the_shell(argv):
    assert SECRET not in "; ".join(readings.read(argv).unread)
