"""`muster completion`: scripts with which shells complete words."""

from __future__ import annotations

import shutil
import subprocess

import pytest

# Completes the words of COMP_LINE as bash does when somebody presses the tab key.
PRESS = """
source /dev/stdin
read -r -a COMP_WORDS <<< "$COMP_LINE"
[[ $COMP_LINE == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_POINT=${#COMP_LINE}
declared=$(complete -p muster)
function=${declared##*-F }
${function%% *} muster "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(muster, tmp_path):
    script = muster("completion", "bash").out

    def press(line):
        command = ["bash", "--norc", "-c", PRESS]
        environment = {"COMP_LINE": line, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            command, input=script, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        return done.stdout.split()

    return press


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("muster ch", {"check"}),
        ("muster check --st", {"--strict"}),
        ("muster check -o ", {"text", "json", "junit", "sarif", "github"}),
        ("muster completion ", {"bash", "zsh", "fish"}),
        ("muster audit ", {"ls", "show", "verify", "serve"}),
    ],
)
def test_bash_completes_commands_options_and_values(complete, line, words):
    assert words <= set(complete(line))


@pytest.mark.parametrize("line", ["muster check jo", "muster check -f jo", "muster serve --config jo"])
def test_bash_completes_files(complete, tmp_path, line):
    (tmp_path / "jobs.yaml").touch()
    assert "jobs.yaml" in complete(line)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_taken_by_its_shell(muster, shell):
    script = muster("completion", shell)
    assert (script.code, script.err, "--strict" in script.out or "strict" in script.out) == (0, "", True)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    done = subprocess.run([shell, "-n"], input=script.out, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
