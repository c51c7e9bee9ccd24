"""Readings: what runs is found through wrappers and shells, and what cannot be seen is said."""

from __future__ import annotations

import shlex
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.launches.launches import MAX_WORDS, Launcher, parse
from muster.strategies.launches.readings import read
from tests.support import limits

LAUNCH = "torchrun --nnodes 2 --nproc_per_node=4 t.py --lr 1"

WRAPPERS = {
    "uv run": "uv run",
    "uv run with options": "uv --directory /x run --with peft -p 3.11 --env-file .env --frozen --",
    "uvx": "uvx --from torch",
    "env": "env -u HOME -C /x A=1 B=",
    "nohup": "nohup",
    "nice": "nice -n 10",
    "nice in its old form": "nice -5",
    "ionice": "ionice -c 2 -n0",
    "chrt": "chrt -f 99",
    "taskset": "taskset -c 0-7",
    "taskset with a mask": "taskset 0xff",
    "numactl": "numactl --cpunodebind=0 --membind 0",
    "tini": "tini -g -- ",
    "tini without dashes": "/usr/bin/tini -s",
    "dumb-init": "dumb-init --rewrite 15:2 --",
    "catatonit": "catatonit -g --",
    "timeout": "timeout -k 30 --signal=INT 2h",
    "time": "/usr/bin/time -v -o log",
    "stdbuf": "stdbuf -oL -e L",
    "setsid": "setsid -w",
    "catchsegv": "catchsegv",
    "gosu": "gosu user:group",
    "su-exec": "su-exec 1000",
    "sudo": "sudo -E -u user A=1",
    "runuser": "runuser -u user --",
    "poetry": "poetry -C /x run",
    "pipenv": "pipenv run",
    "pdm": "pdm run -p /x",
    "hatch": "hatch -e gpu run",
    "rye": "rye run",
    "pixi": "pixi run -e gpu --frozen",
    "conda": "conda run -n env --no-capture-output --live-stream",
    "micromamba": "micromamba run -p /opt/env",
    "nsys": "nsys profile -t cuda,nvtx -o out --force-overwrite true --stats=true",
    "ncu": "ncu --set full -k regex:x -o out",
    "rocprofv3": "rocprofv3 --hip-trace -d out --",
    "py-spy": "py-spy record -o out.svg -s --",
    "strace": "strace -f -e trace=network -o log",
    "perf": "perf record -g -F 99 -o out --",
    "gdb": "gdb -batch -ex run -ex bt --args",
    "compute-sanitizer": "compute-sanitizer --tool memcheck",
    "xvfb-run": "xvfb-run -a -s '-screen 0 1x1x8'",
    "opentelemetry": "opentelemetry-instrument --service_name x --traces_exporter console",
    "ddtrace": "ddtrace-run",
    "newrelic": "newrelic-admin run-program",
    "doppler": "doppler run -p x -c prd --",
    "op": "op run --env-file=.env --",
    "infisical": "infisical run --env=prod --",
    "chamber": "chamber exec service other --",
    "dotenv": "dotenv -f .env run --",
    "flock": "flock -n /lock",
    "unshare": "unshare -n --mount-proc",
    "busybox": "/bin/busybox nohup",
    "NVIDIA's entrypoint": "/opt/nvidia/nvidia_entrypoint.sh",
    "wait-for-it": "wait-for-it.sh host:29500 -t 60 --",
    "several": "tini -- nohup env A=1 uv run timeout 1h",
    **{
        line: line
        for line in (
            *("tini-static --", "docker-init -s --", "unbuffer -p", "eatmydata", "chroot --userspec=1:1 /root"),
            *("setpriv --reuid 1000 --clear-groups", "prlimit --nofile=65536", "choom -n 100", "cgexec -g cpu:a"),
            *("dbus-run-session --config-file f --", "/usr/local/bin/_entrypoint.sh", "with-contenv"),
            *("wait-for-it host:1 --", "wait-for host:1 -t 9 --", "wait-for.sh host:1 --"),
            *("ltrace -f -o log", "valgrind --tool memcheck -q", "cuda-gdb -batch --args", "rocgdb --args"),
            *("nv-nsight-cu-cli -o out", "nvprof --log-file log", "rocprof --stats -o f", "rocprofv2 -d out"),
            *("austin -i 100 -o f", "mamba run -n env", "micromamba run -n env", "teller run --"),
            *("aws-vault exec profile --", "berglas exec --", "direnv exec /x", "mise exec python@3.12 --"),
        )
    },
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapper_is_seen_through(wrapper):
    found, bare = read([*shlex.split(wrapper), *LAUNCH.split()]), parse(LAUNCH.split())
    assert found.unread == ()
    assert _same(found.only, bare)
    assert found.only.through


PYTHONS = {
    "a file of uv": ("uv run t.py a", "t.py", False, ("a",)),
    "a module of uv": ("uv run -m pkg.t a", "pkg.t", True, ("a",)),
    "standard input of uv": ("uv run - a", "-", False, ("a",)),
    "debugpy": ("python -m debugpy --listen 5678 --wait-for-client t.py a", "t.py", False, ("a",)),
    "cProfile of a module": ("python -m cProfile -o f -m pkg.t a", "pkg.t", True, ("a",)),
    "coverage": ("coverage run --branch -p t.py a", "t.py", False, ("a",)),
    "memray": ("python -u -m memray run -o f --live t.py a", "t.py", False, ("a",)),
    "viztracer": ("viztracer --log_async -o f -- t.py a", "t.py", False, ("a",)),
    "the program debugpy": ("debugpy --listen 5678 t.py a", "t.py", False, ("a",)),
    **{
        line: (f"{line} t.py a", "t.py", False, ("a",))
        for line in (
            *("memray run -o f", "scalene --cpu", "kernprof -l -o f"),
            *("python -m cProfile -o f", "python -m profile -o f", "python -m profiling.tracing -o f"),
            *("python -m pdb -c c", "python -m trace --count -C d", "python -m torch.utils.bottleneck"),
            *("python -m coverage run -p", "python -m viztracer -o f", "python -m scalene --cpu"),
            *("python -m kernprof -l", "python -m tracemalloc"),
        )
    },
}


@pytest.mark.parametrize(("line", "target", "module", "rest"), PYTHONS.values(), ids=PYTHONS)
def test_what_a_wrapper_gives_to_python_is_a_program_of_python(line, target, module, rest):
    launch = read(line.split()).only
    assert (launch.launcher, launch.target, launch.module, launch.rest) == (Launcher.PYTHON, target, module, rest)


@pytest.mark.parametrize("line", ["python -m cProfile -m torch.distributed.run x.py", "python /opt/bin/torchrun x.py"])
def test_a_launcher_that_python_itself_runs_is_a_launcher(line):
    assert read(line.split()).only.launcher is Launcher.TORCHRUN


UNREAD = {
    "an unknown program": ["my-launcher", "torchrun", "x.py"],
    "an unknown option of a wrapper": ["nohup", "--what", "torchrun", "x.py"],
    "a script": ["bash", "run.sh"],
    "standard input": ["bash"],
    "an open quote": ["bash", "-c", "torchrun 'x"],
    "an open group": ["bash", "-c", "{ torchrun x"],
    "a stray end": ["bash", "-c", "torchrun x; fi"],
    "an unknown program in a shell": ["bash", "-c", "my-setup && torchrun x.py"],
    "a file that is sourced": ["bash", "-c", ". ./env.sh; torchrun x.py"],
    "a program that only the pod knows": ["bash", "-c", "$RUN x.py"],
    "a text that only the pod knows": ["bash", "-c", "$(TEXT)"],
    "options that only the pod knows": ["bash", "-c", "torchrun $ARGS x.py"],
    "options of trl that only the pod knows": ["bash", "-c", "trl sft --lr 1 $ARGS"],
    "dashes that a wrapper runs as a program": ["timeout", "5", "--", "torchrun", "x.py"],
    "xargs": ["bash", "-c", "cat list | xargs -n1 torchrun"],
    "gdb without its switch": ["gdb", "torchrun", "x.py"],
    "too many commands": ["bash", "-c", "true\n" * 3000],
}


@pytest.mark.parametrize("argv", UNREAD.values(), ids=UNREAD)
def test_what_cannot_be_seen_is_said(argv):
    found = read(argv)
    assert found.unread
    assert found.only is None


SHELL = {
    "the last of several programs": ("python a.py && python b.py", ["b.py"], True),
    "a launcher among programs": ("python a.py; torchrun t.py; python b.py", ["t.py"], True),
    "a setup": ("pip install -U x && apt-get update; nvidia-smi; torchrun t.py", ["t.py"], True),
    "modules that prepare": ("python -m pip install x; uv pip install y; torchrun t.py", ["t.py"], True),
    "a launcher's other commands": (
        "accelerate config default; tune download m; accelerate launch t.py",
        ["t.py"],
        True,
    ),
    "a launch in a branch": ("if [ -f x ]; then torchrun t.py; fi", ["t.py"], False),
    "two branches": ("if [ $R = 0 ]; then torchrun a.py; else torchrun b.py; fi", ["a.py", "b.py"], False),
    "a loop": ("until torchrun t.py; do sleep 1; done", ["t.py"], False),
    "a case": ("case $R in 0) torchrun a.py;; *) torchrun b.py;; esac", ["a.py", "b.py"], False),
    "behind a test": ("[ -f x ] && torchrun t.py", ["t.py"], False),
    "behind a test with another way": ("[ -d x ] || mkdir x && torchrun t.py", ["t.py"], True),
    "behind a failure": ("false || torchrun t.py", ["t.py"], False),
    "with a guard in front": ("command -v torchrun >/dev/null || exit 1\ntorchrun t.py", ["t.py"], True),
    "with a guard behind": ("torchrun t.py || { echo failed >&2; exit 1; }", ["t.py"], True),
    "behind a way out": ("if [ -f done ]; then exit 0; fi\ntorchrun t.py", ["t.py"], False),
    "in the background": ("torchrun t.py &", ["t.py"], False),
    "in the background, waited for": ("torchrun t.py &\nPID=$!\ntrap 'kill $PID' TERM\nwait $PID", ["t.py"], True),
    "named in a comment": ("# torchrun t.py\npython p.py", ["p.py"], True),
    "named as a word": ("echo torchrun t.py; python p.py", ["p.py"], True),
    "all three": ("set -e; (cd /x; exec torchrun t.py) 2>&1 | tee log", ["t.py"], True),
}


@pytest.mark.parametrize(("text", "targets", "certain"), SHELL.values(), ids=SHELL)
def test_a_shell_says_what_it_launches_and_whether_it_does(text, targets, certain):
    found = read(["bash", "-c", text])
    assert ([launch.target for launch in found.launches], found.unread) == (targets, ())
    assert all(launch.certain is certain for launch in found.launches)


BUILTINS = """
    : [ alias bg bind break cd compgen complete continue declare dirs disown echo enable export false fg getopts hash
    help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly set shift shopt
    suspend test times trap true type typeset ulimit umask unalias unset wait
"""


@pytest.mark.parametrize("name", BUILTINS.split())
def test_a_builtin_of_the_shell_starts_nothing(name):
    found = read(["bash", "-c", f"{name} x; torchrun t.py"])
    assert (found.only.target, found.unread) == ("t.py", ())


@pytest.mark.parametrize("word", ["then", "do", "done", "fi", "elif", "else", "esac", "}"])
def test_a_word_that_closes_what_was_not_opened_is_no_text_of_a_shell(word):
    found = read(["bash", "-c", f"torchrun t.py; {word}"])
    assert found.unread == ("the shell's text is not one that Muster can parse",)


REFERENCES = {
    "a variable of the container": ("torchrun --nnodes=$N t.py", "$(N)"),
    "the same in braces and quotes": ('torchrun --nnodes="${N}" t.py', "$(N)"),
    "as Kubernetes writes it": ("torchrun --nnodes=$(N) t.py", "$(N)"),
    "by another name": ("M=$N; torchrun --nnodes=$M t.py", "$(N)"),
    "a default": ("torchrun --nnodes=${N:-2} t.py", "${N:-2}"),
    "an assigned default": (": ${N:=2}; torchrun --nnodes=$N t.py", "${N:-2}"),
    "a default that is a variable": ("torchrun --nnodes=${N:-$M} t.py", "${N:-$(M)}"),
    "a default of a variable's other name": ("M=$N; torchrun --nnodes=${M:-2} t.py", "${N:-2}"),
    "a default behind a default": ("N=${N:-3}; torchrun --nnodes=${N:-2} t.py", "${N:-3}"),
    "a default of what a branch may set": ("if x; then N=3; fi; torchrun --nnodes=${N:-2} t.py", "$N"),
    "a default of an argument": ("set -- 4; torchrun --nnodes=${1:-2} t.py", "4"),
    "a default of a missing argument": ("torchrun --nnodes=${1:-2} t.py", "2"),
    "what a program says": ("M=$(nproc --all); torchrun --nnodes=$M t.py", "$(nproc --all)"),
    "what a program says in backticks": ("M=`nproc`; torchrun --nnodes=$M t.py", "$( nproc )"),
    "a program that could be a variable": ("M=$(nproc); torchrun --nnodes=$M t.py", "$( nproc )"),
    "what a branch may set": ("M=2; if x; then M=3; fi; torchrun --nnodes=$M t.py", "$M"),
    "a letter by its number": (r"torchrun --nnodes=$'\x32' t.py", r"$'\x32'"),
    "what was read": ("read M < /n; torchrun --nnodes=$M t.py", "$M"),
    "the length of a variable": ("N=ab; torchrun --nnodes=${#N} t.py", "${#N}"),
    "the length of an exit status": ("torchrun --nnodes=${#?} t.py", "${#?}"),
    "the length of the shell's flags": ("torchrun --nnodes=${#-} t.py", "${#-}"),
    "a variable by the name in another": ("M=2; N=M; torchrun --nnodes=${!N} t.py", "${!N}"),
    "a default of the last process behind": ("torchrun --nnodes=${!-2} t.py", "${!-2}"),
    "in single quotes": ("torchrun --nnodes='$N' t.py", "$N"),
}


@pytest.mark.parametrize(("text", "value"), REFERENCES.values(), ids=REFERENCES)
def test_a_value_that_only_the_pod_knows_is_no_number(text, value):
    assert read(["bash", "-c", text]).launches[0].values["nnodes"] == value


SPLIT = {
    "a variable of the container": 'A="--nproc_per_node 4 --node_rank $R"; torchrun $A t.py --lr $L',
    "the launcher too": 'A="torchrun --nproc_per_node 4 --node_rank $R"; $A t.py --lr $L',
    "two steps": 'A="--node_rank $R"; B="--nproc_per_node 4 $A"; C="t.py --lr $L"; torchrun $B $C',
    "over several lines": 'A="\n  --nproc_per_node 4 \\\n  --node_rank ${R}\n"; torchrun $A t.py --lr $L',
    "appended": 'A="--nproc_per_node 4"; A+=" --node_rank $R"; torchrun ${A} t.py --lr $L',
    "an argument of a function": 'f() { torchrun $1 t.py --lr $L; }; f "--nproc_per_node 4 --node_rank $R"',
    "in an array": 'A=("--nproc_per_node 4 --node_rank $R"); torchrun ${A[@]} t.py --lr $L',
    "a default": "torchrun ${1:---nproc_per_node 4 --node_rank $R} t.py --lr $L",
    "eval": 'A="torchrun --nproc_per_node 4 --node_rank $R t.py"; eval $A --lr \\$L',
}


@pytest.mark.parametrize("text", SPLIT.values(), ids=SPLIT)
def test_a_value_with_blanks_is_split_where_a_part_of_it_is_known_only_in_the_pod(text):
    launch = read(["bash", "-c", text]).only
    assert launch.values == {"nproc_per_node": "4", "node_rank": "$(R)"}
    assert (launch.target, launch.rest) == ("t.py", ("--lr", "$(L)"))


def test_blanks_inside_what_a_program_says_split_nothing():
    text = 'N=$(nvidia-smi -L | wc -l); A="--nproc_per_node $N --rdzv_id ${R##* }"; torchrun $A t.py'
    launch = read(["bash", "-c", text]).only
    assert launch.values == {"nproc_per_node": "$(nvidia-smi -L | wc -l)", "rdzv_id": "${R##* }"}
    assert launch.target == "t.py"


def test_another_separator_splits_nothing_at_blanks():
    text = "IFS=$'\n'; A='--nproc_per_node 4'; torchrun $A t.py"
    assert read(["bash", "-c", text]).launches[0].unknown
    assert not read(["bash", "-c", "IFS=,; A=--nproc_per_node,4; torchrun $A t.py"]).launches[0].unknown


HIDDEN = {
    "options": "torchrun --nnodes 1 $A t.py",
    "an array of options": 'A=($A); torchrun --nnodes 1 "${A[@]}" t.py',
    "an option that may be none": "torchrun --nnodes 1 ${A:+--standalone} t.py",
    "the name of an option": "torchrun --nnodes 1 --$A 3 t.py",
    "all": "torchrun $A",
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_a_launch_with_words_that_only_the_pod_knows_is_not_certain(text):
    found = read(["bash", "-c", text])
    assert "known only in the pod" in found.unread[0]
    assert not any(launch.certain or launch.unknown for launch in found.launches)


SOME_NODES = {
    "a branch": 'if [ "$R" = 0 ]; then torchrun t.py; else sleep infinity; fi',
    "a branch without another": "if [[ $R -eq 0 ]]; then torchrun t.py; fi",
    "numbers": "if (( R == 0 )); then torchrun t.py; fi",
    "and": "[[ $R -eq 0 ]] && torchrun t.py",
    "the second test": "[ -f x ] && [ $R -eq 0 ] && torchrun t.py",
    "or": "test $R -eq 0 || exit 0; torchrun t.py",
    "an exit": "if [ $R != 0 ]; then sleep 9; exit 0; fi\npip install x\ntorchrun t.py",
    "a case": "case $R in 0) torchrun t.py;; esac",
    "a case with a rest": "case $R in 0) torchrun t.py;; *) sleep infinity;; esac",
    "by another name": "N=${R}; if [ $N = 0 ]; then torchrun t.py; fi",
    "in a function": "f() { torchrun t.py; }; if [ $R = 0 ]; then f; fi",
    "in another shell": """if [ $R = 0 ]; then bash -c 'torchrun t.py'; fi""",
    "a default that no pod needs": "if [ ${PET_NODE_RANK:-0} = 0 ]; then torchrun t.py; fi",
}
ALL_NODES = {
    "both branches": "if [ $R = 0 ]; then torchrun --node_rank 0 t.py; else torchrun --node_rank $R t.py; fi",
    "every case": "case $R in 0) torchrun a.py;; 1) torchrun b.py;; esac",
    "all ways of several": "if [ $R = 0 ]; then torchrun a.py; elif [ $R = 1 ]; then torchrun b.py; fi",
    "behind a branch": "if [ $R = 0 ]; then hf download x; else sleep 9; fi; torchrun t.py",
    "behind a branch that prepares": "if [ $R = 0 ]; then python prepare.py; fi; torchrun t.py",
    "before a branch": "torchrun t.py; if [ $R = 0 ]; then torchrun --standalone eval.py; fi",
    "a way out behind a launch": "if [ $R = 0 ]; then torchrun a.py; exit 0; fi; torchrun b.py",
    "and and or": "[ $R = 0 ] && torchrun a.py || torchrun b.py",
    "a guard": '[ -n "$R" ] || exit 1; torchrun t.py',
    "a guard that ends well": '[ -z "$R" ] && exit 0; torchrun t.py',
    "a variable of the image that has a default": "if [ ${R:-0} = 0 ]; then torchrun t.py; fi",
    "the head of a cluster": "if [ $R = 0 ]; then ray start --head; python t.py; else ray start --block; fi",
    "a launcher that starts the others": "if [ $R = 0 ]; then mpirun -np 16 python t.py; else sleep infinity; fi",
    "hosts that wait for the launcher": "if [ $R = 0 ]; then accelerate launch t.py; else /usr/sbin/sshd -D; fi",
    "a loop that waits": "while [ $R != 0 ] && [ ! -f ready ]; do sleep 1; done; torchrun t.py",
}


@pytest.mark.parametrize("text", SOME_NODES.values(), ids=SOME_NODES)
def test_a_launch_says_what_decides_that_only_some_nodes_reach_it(text):
    (launch,) = read(["bash", "-c", text]).launches
    assert launch.chosen & {"R", "PET_NODE_RANK"}


@pytest.mark.parametrize("text", ALL_NODES.values(), ids=ALL_NODES)
def test_where_all_nodes_take_part_nothing_decides(text):
    launches = read(["bash", "-c", text]).launches
    assert launches
    assert not any(launch.chosen for launch in launches)


def test_variables_of_a_wrapper_and_a_shell_are_told_apart():
    text = "A=1; export B=2 C=$(date +%s) D=$HOME; unset E; F=3 torchrun t.py"
    launch = read(["env", "-u", "G", "H=4", "bash", "-c", text]).only
    assert dict(launch.env) == {"B": "2", "C": "$(date +%s)", "D": "$(HOME)", "E": "", "F": "3", "G": "", "H": "4"}
    assert dict(launch.assigned) == {"A": "1"}
    assert not launch.cleared
    assert read(["env", "-i", "A=1", "torchrun", "t.py"]).only.cleared


@pytest.mark.parametrize("packages", [False, True])
def test_the_job_of_the_python_sdk_is_read(packages):
    code = "def train():\n    import os\n    print(f\"{os.environ['X']} $HOME `x` \\\\n\")\n\ntrain()\n"
    script = textwrap.dedent(
        """
        read -r -d '' SCRIPT << EOM\n
        {func_code}
        EOM
        printf "%s" \"$SCRIPT\" > \"{func_file}\"
        torchrun \"{func_file}\""""
    ).format(func_code=code.replace("`x`", ""), func_file="train.py")
    found = read(["bash", "-c", (_PACKAGES if packages else "") + script])
    assert (found.unread, found.only.launcher, found.only.target) == ((), Launcher.TORCHRUN, "train.py")


_PACKAGES = """
if ! [ -x "$(command -v pip)" ]; then
    python -m ensurepip || python -m ensurepip --user || apt-get install python-pip
fi

PACKAGES=('transformers[torch]' peft)
PIP_OPTS=(--index-url https://pypi.org/simple)
LOG_FILE="pip_install.log"
rm -f "$LOG_FILE"

if PIP_DISABLE_PIP_VERSION_CHECK=1 python -m pip install --quiet \\
    --no-warn-script-location "${PIP_OPTS[@]}" --user "${PACKAGES[@]}" >"$LOG_FILE" 2>&1; then
    echo "Successfully installed Python packages (user): ${PACKAGES[*]}"
elif PIP_DISABLE_PIP_VERSION_CHECK=1 python -m pip install "${PACKAGES[@]}" >>"$LOG_FILE" 2>&1; then
    echo "Successfully installed"
else
    cat "$LOG_FILE" >&2
    exit 1
fi
"""

HOSTILE = {
    "open parentheses": "(" * 10_000,
    "parentheses": "(" * 5_000 + ")" * 5_000,
    "open substitutions": "$(" * 10_000,
    "substitutions": "echo " + "$(" * 4_000 + "x" + ")" * 4_000,
    "quotes": "'\"" * 10_000,
    "backticks": "`" * 20_001,
    "defaults": "echo " + "${a:-" * 5_000 + "}" * 5_000,
    "branches": "if a; then " * 2_000,
    "here-documents": "cat <<A\n" * 3_000,
    "a value that doubles": "a=xxxxxxxxxx\n" + "a=$a$a\n" * 40 + "torchrun $a",
    "an array that doubles": "a=(x)\n" + 'a=("${a[@]}" "${a[@]}")\n' * 40 + "torchrun $a",
    "a function that calls itself": "f(){ f; f; }\nf",
    "functions that call each other": "f(){ g; g; }; g(){ h; h; }; h() { torchrun x; torchrun y; }; " + "f;" * 400,
    "many variables in many subshells": "\n".join(f"a{i}=1; (b{i}=2)" for i in range(1_000)),
    "a large number": "torchrun $((" + "9*" * 5_000 + "9))",
    "a large power": "torchrun $((9**9**9**9))",
    "braces": "echo " + "{a," * 10_000,
    "shells in shells": "bash -c " * 3_000,
    "text again and again": "eval " * 5_000 + "torchrun x",
    "signs": "<" * 20_000,
    "half characters": "é?\ud800" * 5_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_costs_little(text):
    begun = time.process_time()
    read(["bash", "-c", text])
    assert time.process_time() - begun < 2


def test_wrappers_nest_up_to_a_bound_that_keeps_their_cost_small():
    assert read([*["env"] * 60, "torchrun", "x.py"]).only.target == "x.py"
    begun = time.process_time()
    assert read([*["env"] * (MAX_WORDS - 2), "torchrun", "x.py"]).unread
    assert time.process_time() - begun < 0.05
    assert read([*["env"] * MAX_WORDS, "torchrun", "x.py"]).unread


@pytest.mark.parametrize(("written", "told"), [(15, 15), (16, 16), (17, 16)])
def test_the_first_sixteen_wrappers_are_told(written, told):
    assert read([*["env"] * written, "torchrun", "x.py"]).only.through == ("env",) * told


def test_a_command_line_that_is_too_long_to_be_read_keeps_its_words():
    words = ("torchrun", *("x",) * MAX_WORDS)
    found = parse(words)
    assert (found.launcher, found.head, found.rest) == (Launcher.OTHER, words[:1], words[1:])
    assert parse([]).launcher is Launcher.NONE


def test_a_number_that_the_shell_computes_at_its_declaration_is_not_read():
    text = "declare -i N=2+2; typeset -xi M=1*2; torchrun --nproc_per_node=$N --nnodes=$M t.py"
    assert read(["bash", "-c", text]).only.values == {"nproc_per_node": "$N", "nnodes": "$M"}
    assert (
        read(["bash", "-c", "declare -i N=4; torchrun --nproc_per_node=$N t.py"]).only.values["nproc_per_node"] == "4"
    )


@pytest.mark.parametrize("name", ["$V", "$(cat names)", "${!PET_@}"])
def test_a_variable_that_only_the_pod_knows_may_be_taken_away(name):
    found = read(["bash", "-c", f"unset {name}; torchrun t.py"])
    assert found.unread[0].startswith("which variables the shell takes away")


QUOTED = st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0\r$"), max_size=6), max_size=4)
FLAGS = st.lists(
    st.sampled_from(["--nnodes=2", "--nnodes 1:4", "--nproc-per-node 8", "--standalone", "-t 3", "--rdzv-id=a", "-m"]),
    max_size=4,
).map(lambda flags: " ".join(flags).split())
WRAPPER = st.lists(st.sampled_from([w for w in WRAPPERS.values() if not w.startswith("sudo")]), max_size=3)
STYLE = st.sampled_from(["bare", "shell", "login", "exec", "arguments", "twice", "setup"])


@given(WRAPPER, STYLE, FLAGS, QUOTED)
@limits.MANY
def test_wrappers_and_quotes_change_nothing(wrappers, style, flags, rest):
    words = ["torchrun", *flags, "t.py", *rest]
    chain = [word for wrapper in wrappers for word in shlex.split(wrapper)]
    found = read([*chain, *_styled(style, words)])
    assert found.unread == ()
    assert _same(found.only, parse(words))


def _styled(style, words):
    line = shlex.join(words)
    styles = {
        "bare": words,
        "shell": ["bash", "-c", line],
        "login": ["/bin/bash", "-euxo", "pipefail", "--login", "-c", line],
        "exec": ["sh", "-c", 'exec "$@"', "--", *words],
        "arguments": ["sh", "-c", 'set -e; "$0" "$@" 2>&1 | tee /log', *words],
        "twice": ["bash", "-c", shlex.join(["sh", "-c", line])],
        "setup": ["bash", "-c", f"set -e\ncd /x && pip install y # torchrun no\n{line} || exit 1\n"],
    }
    return styles[style]


def _same(one, other):
    return one is not None and (one.launcher, one.head, one.options, one.values, one.module, one.target, one.rest) == (
        *(other.launcher, other.head, other.options, other.values, other.module, other.target, other.rest),
    )


def test_a_large_script_is_read_once_however_often_a_decision_asks():
    words = ["bash", "-c", "# a long comment\n" * 2_000 + "torchrun train.py"]
    assert read(words) is read(list(words))
