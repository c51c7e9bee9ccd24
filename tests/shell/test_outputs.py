"""What a shell's own commands print into files that the launch then reads or runs."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies import shell
from muster.strategies.launches import readings

KNOWN = [
    ["echo", "a", "b"],
    ["echo", "-n", "a"],
    ["echo", "-e", "a\\nb"],
    ["echo", "a\\nb"],
    ["echo"],
    ["printf", "a slots=1\\nb slots=1\\n"],
    ["printf", "%s\\n", "a", "b"],
    ["printf", "%s=%d\\n", "a", "1", "b", "2"],
    ["printf", "100%%"],
    ["printf", "%s"],
]


@pytest.mark.parametrize("words", KNOWN, ids=" ".join)
def test_what_is_printed_is_what_bash_prints(words):
    bash = shutil.which("bash")
    seen = subprocess.run([bash, "-c", '"$@"', "-", *words], capture_output=True, text=True, check=True)
    assert shell.printed(words, None) == seen.stdout


@pytest.mark.parametrize(
    "words", [["printf", "%05d", "1"], ["printf", "-v", "A", "x"], ["echo", "-e", "\\x41"], ["ls"]]
)
def test_what_depends_on_more_than_the_words_is_not_known(words):
    assert shell.printed(words, None) is None


@given(st.lists(st.text("ab%sd\\n- ", max_size=8), max_size=4), st.sampled_from(["echo", "printf", "cat"]))
def test_no_words_are_too_odd(words, name):
    assert isinstance(shell.printed([name, *words], None), str | None)


LAUNCH = "torchrun --nproc-per-node=2 train.py"


@pytest.mark.parametrize(
    "text",
    [
        f"echo '{LAUNCH}' > /tmp/run.sh; bash /tmp/run.sh",
        f"printf '%s\\n' 'set -e' '{LAUNCH}' > /tmp/run.sh; bash /tmp/run.sh",
        f"echo 'set -e' > run.sh; echo '{LAUNCH}' >> run.sh; bash run.sh",
        f"tee /tmp/run.sh > /dev/null <<EOF\n{LAUNCH}\nEOF\nbash /tmp/run.sh",
    ],
)
def test_a_script_that_the_shell_writes_is_read(text):
    assert [launch.values.get("nproc_per_node") for launch in readings.read(["bash", "-c", text]).launches] == ["2"]


def test_a_script_that_is_extended_by_what_nobody_sees_is_not_read():
    text = f"echo '{LAUNCH}' > run.sh; python make.py >> run.sh; bash run.sh"
    assert not any("nproc_per_node" in each.values for each in readings.read(["bash", "-c", text]).launches)
