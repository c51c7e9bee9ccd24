"""Shells: bash itself runs each text, with programs on its path that say how they were called."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from muster.strategies.launches.readings import read

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not on this machine")

ENV = {"PET_NNODES": "2", "NPROC": "8", "X": "value", "EMPTY": "", "EXTRA": "one"}
STUB = f"""#!{sys.executable} -S
import json, os, sys
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
"""

TEXTS = {
    "plain words": "torchrun --nnodes 2 t.py",
    "quotes of all kinds": """torchrun 'a b' "c d" e\\ f "g \\"h\\" \\$i" $'j\\tk' 'l'"m"n t.py""",
    "a comment": "# torchrun no.py\ntorchrun t.py # --nnodes 3",
    "a sign that begins no comment": "torchrun a#b t.py#",
    "continued lines": "torchrun \\\n  --nnodes 2 \\\n  t.py",
    "a continued line inside quotes": 'torchrun "a\\\nb" t.py',
    "a known variable": "N=4; torchrun --nproc_per_node=$N ${N}0 t.py",
    "a variable of the container": 'torchrun --nnodes=$PET_NNODES --nproc_per_node "${NPROC}" t.py',
    "a value with blanks": 'A="--nnodes 2  --tee 3"; torchrun $A "$A" t.py',
    "a value that begins with a blank": 'A=" b c "; torchrun a$A"d" t.py',
    "an empty value": 'A=; torchrun $A "$A" "" t.py',
    "an array": "A=(--nnodes 2 'x y'); A+=(z); torchrun \"${A[@]}\" ${A[1]} $A t.py",
    "a default": "A=; B=3; torchrun ${A:-4} ${B:-5} ${A-6} ${B:+7} t.py",
    "a default of an array": "A=(x y); E=(); torchrun ${A:-4} ${E:-5} t.py",
    "all of an array in one": "A=(--nnodes 2 'x y'); torchrun ${A[*]} t.py",
    "an array that is exported": "export A=(x y); bash -c 'torchrun $A t.py'",
    "an empty value at the end of a subshell": "(A=); A=1; torchrun $A t.py",
    "an empty value in front of other ends": "A=\nB=&\nC=|cat\nD=<x\nD=>x\nE= \nF=\t\nG=;torchrun a$A$C$E t.py",
    "a default with blanks": 'A=; torchrun ${A:-x y} "${A:-x y}" t.py',
    "an assigned default": "A=; torchrun ${A:=4} $A t.py",
    "arithmetic": "A=3; torchrun $((A * 2 + 1)) $(( (7 - 1) / 4 )) $((-7 / 2)) t.py",
    "assignments in front of a command": "A=1 B='x y' torchrun t.py",
    "export": 'export A=5 B="x y"; torchrun $A "$B" t.py',
    "and": "true && cd / && torchrun t.py",
    "a group": "{ torchrun a.py; } && (torchrun b.py)",
    "a subshell keeps its variables": "A=1; (A=2; torchrun $A); torchrun $A",
    "a pipe": "torchrun t.py 2>&1 | cat > /dev/null",
    "redirections": "> /dev/null torchrun a 2>&1 b < /dev/null c &> /dev/null d 3>/dev/null",
    "a number in front of a redirection": "torchrun t.py 2 2> /dev/null a2> /dev/null",
    "process substitution": "torchrun t.py > >(cat > /dev/null)",
    "a function": 'f() { torchrun --nnodes $1 "$2" $#; }; f 3 "x y"',
    "a function of the other form": "function g { torchrun $@; }\ng a b",
    "all arguments": 'set -- a "b c"; torchrun "$@" $* "$*" $2',
    "shifted arguments": "set -- a b c; shift; torchrun $1 $#",
    "no arguments": 'set --; torchrun "$@" t.py',
    "eval": "A='torchrun x'; eval \"$A y\"",
    "another shell": "bash -c 'torchrun a'; sh -ec \"torchrun b\"; bash -euo pipefail -c 'torchrun $0 $1' c d",
    "a shell in a shell": """bash -c 'bash -c "torchrun \\"x y\\""'""",
    "exported to another shell": "export A=7; B=8; bash -c 'torchrun $A'",
    "a program in place of the shell": "exec torchrun a; torchrun b",
    "an exit": "torchrun a; exit 0; torchrun b",
    "an exit in a subshell": "(exit 0; torchrun a); torchrun b",
    "a return": "f() { torchrun a; return 0; torchrun b; }; f; torchrun c",
    "the background": "torchrun t.py & wait",
    "wrappers": "env A=1 nohup nice -n 5 timeout 60 setsid -w torchrun t.py",
    "env with a text": "env -S 'A=1 torchrun t.py'",
    "builtins in front": "command torchrun a; exec -a name torchrun b",
    "a here-document for a file": "cat > x.sh <<'EOF'\ntorchrun 'b' $A\nEOF\nbash x.sh",
    "a here-document for a shell": "A=5\nbash <<EOF\ntorchrun $A \\$X t.py\nEOF\ntorchrun b",
    "a here-document for a file with arguments": 'cat > z.sh <<\'EOF\'\ntorchrun "$1" "$2"\nEOF\nbash z.sh one two',
    "a here-document with tabs": "cat > y.sh <<-EOF\n\ttorchrun tabs\n\tEOF\nsh ./y.sh",
    "a here-string": "bash <<< 'torchrun t.py'",
    "a here-document that is read": "read -r -d '' S << EOM\n\nimport os\nprint('$X')\n\nEOM\ntorchrun t.py",
    "a here-document and a pipe": "cat <<EOF | cat > /dev/null\ntorchrun no\nEOF\ntorchrun t.py",
    "ends of lines and semicolons": "\n\n torchrun a;torchrun b ;\n\n\ttorchrun c;",
    "a word with braces in quotes": """torchrun '{"a": 1, "b": 2}' t.py""",
    "an equals sign later": "torchrun A=1 --x=y= t.py",
    "a dollar alone": "torchrun $ 'a$' \"b$\" t.py",
    "single quotes keep all": "torchrun '$X' '`a`' '\\' t.py",
    "an unset variable": "export A=1; unset A; torchrun x${A}y t.py",
    "the name and place of a shell": "bash -c 'torchrun $0 \"$@\"' name a 'b c'",
    "a default of the container's": 'torchrun "${X:?must be set}" t.py',
    "appended text": "A=x; A+=y; torchrun $A t.py",
    "a negated command": "! torchrun a\ntorchrun b",
    "tests": "if [[ a =~ ^(a|b)$ ]]; then :; fi; [ -n x ]; torchrun t.py",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("bash")
    (made / "torchrun").write_text(STUB)
    (made / "torchrun").chmod(0o755)
    return made


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_read_as_bash_runs_it(text, folder, tmp_path):
    calls = tmp_path / "calls"
    calls.touch()
    env = {**ENV, "PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls)}
    subprocess.run([BASH, "-c", text], env=env, cwd=tmp_path, check=False, capture_output=True, timeout=60)
    ran = [json.loads(line) for line in calls.read_text().splitlines()]
    found = read(["bash", "-c", text])
    assert ran
    assert [_called(launch) for launch in found.launches] == [_known(words) for words in ran]
    assert found.unread == ()
    assert all(launch.certain for launch in found.launches)


def _called(launch):
    words = [*launch.head, *launch.options, *([launch.target] if launch.target or launch.rest else []), *launch.rest]
    return _known([re.sub(r"\$\((\w+)\)", lambda found: ENV.get(found[1], ""), word) for word in words])


def _known(words):
    """Leave out what a launch does not keep: an empty word at the place of the program."""
    return [word for word in words if word]
