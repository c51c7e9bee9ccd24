"""All texts of one command line share one allowance, so that texts that run each other cost no more than one."""

from __future__ import annotations

import shlex

import pytest

from muster.strategies import shell
from muster.strategies.launches import readings

LAUNCH = "torchrun train.py\n"
COMMANDS = "the shell's text runs more commands than Muster reads"
TEXTS = "the shell's texts are together longer than Muster reads"
VARIABLES = "the shell's text gives more variables to its commands than Muster reads"
DOUBLED = "X='a a a a a a a '\n" + "X=$X$X\n" * 10
MANY = " ".join(f"a{number}=1" for number in range(3_000)) + "\n"


def _nested(times, depth):
    text = f"export X0='{LAUNCH * times}'\n"
    for inner in range(depth):
        text += f"""export X{inner + 1}='{f'bash -c "$X{inner}";' * times}'\n"""
    return text + f'bash -c "$X{depth}"\n'


HOSTILE = {
    "a shell in a shell in a shell": (_nested(6, 3), COMMANDS),
    "eval": (f"X='{LAUNCH * 20}'\n" + 'eval "$X"\n' * 400, COMMANDS),
    "a file that is run again and again": (f"cat > f <<EOF\n{LAUNCH * 300}EOF\n" + "bash f\n" * 300, COMMANDS),
    "long words": (DOUBLED + f"torchrun {'$X' * 300}\n", TEXTS),
    "long words in quotes": (DOUBLED + f'torchrun "{"$X" * 300}"\n', TEXTS),
    "long words of many commands": (DOUBLED + "torchrun $X a.py\n" * 400, TEXTS),
    "arrays": (f"A=({'a ' * 2_000})\ntorchrun {'${A[@]}' * 2_000}\n", TEXTS),
    "variables of many commands": (MANY + LAUNCH * 400, VARIABLES),
    "variables of many subshells": (MANY + "( : )\n" * 250, VARIABLES),
    "variables of many branches": (MANY + "if :; then :; fi\n" * 120, VARIABLES),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_texts_that_multiply_are_read_up_to_the_allowance_and_no_further(what):
    text, clause = HOSTILE[what]

    reading = readings.read(["bash", "-c", text])

    assert clause in reading.unread
    assert len(reading.launches) + len(reading.beside) <= 1_024


def test_a_script_at_the_bounds_of_one_text_is_read_to_its_end():
    settings = "".join(f"export SETTING_{number}=the-value-of-number-{number}\n" for number in range(240))
    script = (
        settings
        + 'if [ -z "$DEBUG" ]; then echo start; fi\n'
        + "echo one line of a long script of somebody else >> log\n" * 240
    )

    reading = readings.read(["bash", "-c", script + "exec torchrun --nproc_per_node=2 train.py\n"])

    assert len(script) > shell.MAX_TEXT // 2
    assert reading.only is not None
    assert reading.only.values == {"nproc_per_node": "2"}


@pytest.mark.parametrize("times", [3, 6, 12])
def test_what_is_read_is_in_proportion_to_what_is_written(times):
    text = _nested(times, 3)

    reading = readings.read(["bash", "-c", text])

    assert len(reading.launches) + len(reading.beside) <= 64 + len(text) // 8 + 1


def test_shells_around_shells_are_read_to_the_launch():
    text = "torchrun --nproc_per_node=2 train.py"
    for _ in range(3):
        text = f"bash -c {shlex.quote(text)}"

    reading = readings.read(["sh", "-c", text])

    assert reading.only is not None
    assert reading.only.target == "train.py"


def test_each_command_line_has_an_allowance_of_its_own():
    text = "echo ready\n" * 400 + LAUNCH

    every = [readings.read(["bash", "-c", f"{text}# {number}"]) for number in range(4)]

    assert [(len(each.launches), each.unread) for each in every] == [(1, ())] * 4


def test_a_text_that_starts_more_programs_than_any_job_is_not_read_to_its_end():
    at_most, more = (readings.read(["bash", "-c", LAUNCH * count]) for count in (64, 65))
    assert (len(at_most.launches), at_most.unread) == (64, ())
    assert (len(more.launches), more.unread) == (64, ("the command line starts more programs than Muster reads",))


@pytest.mark.parametrize(("spend", "room"), [("text", 4_096), ("variables", 4_096)])
def test_all_that_is_allowed_can_be_spent_and_not_one_more(spend, room):
    allowance = shell.Allowance(0)
    allowance.pay(spend, room)
    with pytest.raises(shell.Unreadable):
        allowance.pay(spend)
