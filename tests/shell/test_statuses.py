"""Whether the status with which a launch ends is the status of its container."""

import pytest

from muster.strategies.launches.readings import read
from muster.strategies.shell import Loss

LAUNCH = "torchrun train.py"


def lost(*argv: str) -> tuple[Loss, str] | None:
    """Return how the status of the first launch of a command line is lost."""
    return read(argv).launches[0].lost


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        (f"{LAUNCH} | tee log", (Loss.PIPE, "tee")),
        (f"{LAUNCH} 2>&1 |& grep -v noise", (Loss.PIPE, "grep")),
        (f"set -e; {LAUNCH} | tee log", (Loss.PIPE, "tee")),
        (f"(set -o pipefail; true); {LAUNCH} | tee log", (Loss.PIPE, "tee")),
        (f"set -o pipefail; set +o pipefail; {LAUNCH} | tee log", (Loss.PIPE, "tee")),
        (f"{{ cd /work; {LAUNCH}; }} | tee log", (Loss.PIPE, "tee")),
        (f"{LAUNCH} || true", (Loss.OR, "true")),
        (f"set -e; {LAUNCH} || echo failed", (Loss.OR, "echo")),
        (f"cd /work && {LAUNCH} && touch ok || :", (Loss.OR, ":")),
        (f"{LAUNCH} || {{ cat log; echo failed; }}", (Loss.OR, "echo")),
        (f"{LAUNCH} || exit 0", (Loss.OR, "exit 0")),
        (f"{LAUNCH}; echo finished", (Loss.NEXT, "echo")),
        (f"{LAUNCH}\ncp -r out /mnt\nsleep infinity", (Loss.NEXT, "sleep")),
        (f"{LAUNCH}; exit 0; python report.py", (Loss.NEXT, "exit 0")),
        (f"set -e; {LAUNCH} && touch ok; echo finished", (Loss.NEXT, "echo")),
        (f"if [ -d /data ]; then {LAUNCH}; fi; echo finished", (Loss.NEXT, "echo")),
        (f"main() {{ {LAUNCH}; }}; main; echo finished", (Loss.NEXT, "echo")),
        (f"bash -c '{LAUNCH}'; echo finished", (Loss.NEXT, "echo")),
        (f"eval {LAUNCH}; echo finished", (Loss.NEXT, "echo")),
        (f"bash -c '{LAUNCH} &'; sleep infinity", (Loss.NEXT, "sleep")),
        (f"nohup {LAUNCH} > log 2>&1 & echo started", (Loss.LEFT, "")),
        (f"{LAUNCH} &", (Loss.LEFT, "")),
        (f"{LAUNCH} & disown; exit 0", (Loss.LEFT, "")),
    ],
)
def test_a_shell_loses_the_status_of_its_launch(text, loss):
    assert lost("bash", "-c", text) == loss


@pytest.mark.parametrize(
    "text",
    [
        LAUNCH,
        f"exec {LAUNCH}",
        f"exec {LAUNCH}; echo never",
        f"set -e; {LAUNCH}; echo finished",
        f"set -euo pipefail; {LAUNCH} | tee log; echo finished",
        f"set -o errexit; {{ {LAUNCH}; ls; }}; echo finished",
        f"{LAUNCH} && echo finished",
        f"{LAUNCH}; python report.py",
        f"{LAUNCH}; status=$?; echo finished; exit $status",
        f"{LAUNCH} | tee log; exit ${{PIPESTATUS[0]}}",
        f"{LAUNCH} || exit 1; echo finished",
        f"{LAUNCH} || {{ echo failed; exit 1; }}; echo finished",
        f"{LAUNCH} || {{ echo failed; false; }}",
        f"{LAUNCH} > >(tee log) 2>&1",
        f"echo config | {LAUNCH}",
        f"if {LAUNCH}; then echo good; else exit 1; fi",
        f"if ! {LAUNCH}; then exit 1; fi; echo finished",
        f"until {LAUNCH}; do sleep 5; done; echo finished",
        f"while true; do {LAUNCH} && break; sleep 5; done",
        f"trap 'exit 1' ERR; {LAUNCH}; echo finished",
        f"{LAUNCH} & wait $!",
        f"{LAUNCH} & wait",
        f"{LAUNCH} & sleep infinity",
        f"{LAUNCH} & while kill -0 $!; do sleep 1; done",
        f"{LAUNCH} & python serve.py",
        f"{LAUNCH} & fg",
    ],
)
def test_a_status_that_counts_or_may_count_is_not_said_to_be_lost(text):
    assert lost("bash", "-c", text) is None


@pytest.mark.parametrize("options", [("-e", "-c"), ("-ec",), ("-euo", "pipefail", "-c"), ("-o", "errexit", "-c")])
def test_the_options_of_the_shell_count_as_those_of_set(options):
    assert lost("bash", *options, f"{LAUNCH}; echo finished") is None


def test_pipefail_behind_the_letter_o_is_no_text():
    assert lost("bash", "-eo", "pipefail", "-c", f"{LAUNCH} | tee log") is None
