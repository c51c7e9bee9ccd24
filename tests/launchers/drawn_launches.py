"""Random launches of a grammar: wrapper x launcher x flags x counts x devices x nodes.

A launch is drawn as its bare command line and what each wrapper around it does, so that whoever judges it needs neither
a shell nor Muster's reader: `Drawn.bare` with `Drawn.assigned` on top of the container's env is what really runs.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

COORDINATOR = "train-node-0-0.train"


@dataclass(frozen=True)
class Drawn:
    """A job's launch.

    Attributes:
        written: command and args as the job has them.
        bare: the launcher's own command line.
        assigned: env that wrappers and the shell set for it; None for a variable that they take away.
        nodes: spec.trainer.numNodes.
        devices: nvidia.com/gpu of each node.
        processes: spec.trainer.numProcPerNode; None when it is not set.
        runtime: what the launch needs of the runtime: torch, trl or torchtune.
    """

    written: tuple[str, ...]
    bare: tuple[str, ...]
    assigned: dict[str, str | None] = field(default_factory=dict)
    nodes: int = 1
    devices: int = 0
    processes: int | None = None
    runtime: str = "torch"


def some(*values):
    return st.sampled_from(values)


def flag(name, values):
    """A flag in one of its spellings, or none."""
    spelt = some(name, name.replace("_", "-"))
    given = st.builds(
        lambda word, value, attached: [f"--{word}={value}"] if attached else [f"--{word}", str(value)],
        spelt, values, st.booleans(),
    )  # fmt: skip
    return st.just([]) | given


def words(*parts):
    """Some flags, in this order."""
    return st.tuples(*parts).map(lambda found: [word for part in found for word in part])


counts = st.integers(1, 8).map(str)
addresses = some(COORDINATOR, "localhost", "127.0.0.1", "$(PET_MASTER_ADDR)")
ranks = some("0", "1", "$(PET_NODE_RANK)", "$(JOB_COMPLETION_INDEX)")
torchrun_flags = words(
    flag("nproc_per_node", some("1", "2", "4", "8", "auto", "gpu", "$(PET_NPROC_PER_NODE)")),
    flag("nnodes", some("1", "2", "2", "3", "$(PET_NNODES)", "1:2", "2:3")),
    flag("node_rank", ranks),
    flag("master_addr", addresses),
    flag("master_port", some("29500", "29511")),
)
c10d_flags = words(
    flag("nproc_per_node", some("1", "2", "4", "auto")),
    flag("nnodes", some("1", "2", "1:2", "1:4", "$(PET_NNODES)")),
    st.just(["--rdzv_backend=c10d"]),
    flag("rdzv_endpoint", addresses.map(lambda host: f"{host}:29400")),
    flag("rdzv_id", some("job", "7")),
)
# Most launches are right but for one thing; with all flags drawn at once, nearly none would be.
few_flags = (
    st.just([])
    | st.one_of(flag("nproc_per_node", some("1", "2", "4", "8", "auto", "gpu")), flag("nnodes", some("1", "2", "4")))
    | flag("nproc_per_node", some("2", "4"))
    | st.just(["--standalone"])
    | words(st.just(["--standalone"]), flag("nnodes", st.just("1")))
)
program = some(["train.py"], ["train.py", "--lr", "1e-4"], ["-m", "pkg.train"], ["train.py", "--note", "torchrun"])
torchrun = st.builds(
    lambda head, flags, rest: [*head, *flags, *rest],
    some(["torchrun"], ["python", "-m", "torch.distributed.run"], ["/opt/bin/torchrun"], ["python3", "-u", "-m",
         "torch.distributed.run"]),
    st.one_of(few_flags, few_flags, torchrun_flags, c10d_flags), program,
)  # fmt: skip
machines = words(
    flag("num_machines", some("1", "2", "2", "3")),
    flag("machine_rank", ranks),
    flag("main_process_ip", addresses),
    flag("main_process_port", some("29500", "29600", "$(PET_MASTER_PORT)")),
)
whole_machines = some("2", "3").map(
    lambda number: [
        *("--num_machines", number, "--machine_rank", "$(PET_NODE_RANK)"),
        *("--main_process_ip", "$(PET_MASTER_ADDR)", "--main_process_port", "$(PET_MASTER_PORT)"),
    ]
)
processes = flag("num_processes", some("1", "2", "4", "6", "8", "16"))
accelerate_flags = words(some([], ["--multi_gpu"], ["--use_fsdp"]), processes, st.one_of(st.just([]), whole_machines,
                         machines), flag("mixed_precision", st.just("bf16")))  # fmt: skip
accelerate = st.builds(lambda flags, rest: ["accelerate", "launch", *flags, *rest], accelerate_flags, program)
trl_arguments = ["--model_name_or_path", "m", "--dataset_name", "d", "--output_dir", "o"]
trl_flags = words(flag("num_processes", some("1", "2", "4", "8")), st.one_of(st.just([]), whole_machines))
trl = st.builds(
    lambda method, flags: ["trl", method, *trl_arguments, *flags], some("sft", "dpo"),
    st.one_of(
        st.just([]), trl_flags, some("zero3", "fsdp2", "multi_gpu").map(lambda name: ["--accelerate_config", name])
    ),
) | st.builds(
    lambda flags: ["torchrun", *flags, "-m", "trl.scripts.sft", *trl_arguments], few_flags
)  # fmt: skip
recipes = some(
    ["full_finetune_distributed", "--config", "llama3_2/1B_full"],
    ["lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"],
    ["my_recipe", "--config", "my.yaml"],
)
tune = st.builds(
    lambda flags, rest: ["tune", "run", *flags, *rest],
    words(flag("nproc_per_node", some("1", "2", "4")), flag("nnodes", some("1", "2")),
          flag("rdzv_endpoint", addresses.map(lambda host: f"{host}:29500"))),
    recipes,
)  # fmt: skip
deepspeed = st.builds(
    lambda flags: ["deepspeed", *flags, "train.py", "--deepspeed", "ds.json"],
    some([], ["--num_gpus", "1"], ["--num_gpus=2"], ["--num_gpus", "4"]),
)
python = some(["python", "train.py"], ["python", "-u", "-m", "pkg.train"])


def bare_launches():
    """Launches with the runtime that they need."""
    return st.one_of(
        *[st.tuples(launch, st.just("torch")) for launch in (torchrun, torchrun, accelerate, python, deepspeed)],
        *[st.tuples(launch, st.just("trl")) for launch in (trl, trl)],
        st.tuples(tune, st.just("torchtune")),
    )


def _env(launch, assigned):
    given = {**launch.assigned, **assigned}
    return replace(launch, assigned=given)


def _front(*front):
    return lambda launch: replace(launch, written=(*front, *launch.written))


def _env_wrapper(name, value):
    def wrap(launch):
        wrapped = replace(launch, written=("env", f"{name}={value}", *launch.written))
        return _env(wrapped, {name: value} if name not in launch.assigned else {})

    return wrap


def _env_unset(name):
    def wrap(launch):
        wrapped = replace(launch, written=("env", "-u", name, *launch.written))
        return _env(wrapped, {name: None} if name not in launch.assigned else {})

    return wrap


WRAPPERS = (
    _front("uv", "run"), _front("uv", "run", "--frozen", "--with", "peft"), _front("nohup"), _front("tini", "--"),
    _front("tini", "-g", "--"), _front("numactl", "-N", "0", "-m", "0"), _front("numactl", "--interleave=all"),
    _front("conda", "run", "-n", "train", "--no-capture-output"),
    _front("nsys", "profile", "-o", "report", "--trace=cuda,nvtx"),
    _env_wrapper("NCCL_DEBUG", "INFO"), _env_wrapper("OMP_NUM_THREADS", "2"),
    _env_wrapper("PET_NPROC_PER_NODE", "2"), _env_wrapper("PET_NNODES", "1"), _env_unset("NCCL_DEBUG"),
    _env_unset("PET_NNODES"),
)  # fmt: skip


def _shell(text, *, assigned=None, by=("bash", "-c")):
    """A text with {} for the launch; what it assigns holds where no wrapper inside assigns the same."""

    def wrap(launch):
        line = text.replace("{}", shlex.join(launch.written))
        given = {name: value for name, value in (assigned or {}).items() if name not in launch.assigned}
        return _env(replace(launch, written=(*by, line)), given)

    return wrap


SHELLS = (
    _shell("{}"), _shell("exec {}"), _shell("cd /workspace && {}"), _shell("set -e\npip install -q peft\n{}\n"),
    _shell("# torchrun would be better\n{}\n"), _shell("{}  # not python train.py"),
    _shell("echo 'torchrun --nproc_per_node=8'; {}"), _shell("export NCCL_DEBUG=INFO HF_HOME=/c\n{}"),
    _shell("ulimit -n 65536; {}", by=("sh", "-c")), _shell("{}", by=("bash", "-lc")),
    _shell("nvidia-smi && \\\n  {}"),
    _shell("PET_NPROC_PER_NODE=2 {}", assigned={"PET_NPROC_PER_NODE": "2"}),
    _shell("export PET_NNODES=1; {}", assigned={"PET_NNODES": "1"}),
    _shell("unset PET_NODE_RANK\n{}", assigned={"PET_NODE_RANK": None}),
)  # fmt: skip


@st.composite
def drawn(draw):
    """A launch on its nodes."""
    bare, runtime = draw(bare_launches())
    launch = Drawn(tuple(bare), tuple(bare), runtime=runtime)
    for wrap in draw(st.lists(some(*WRAPPERS), max_size=1)) if draw(st.booleans()) else ():
        launch = wrap(launch)
    if draw(st.integers(0, 2)) == 0:
        launch = draw(some(*SHELLS))(launch)
    return replace(
        launch,
        nodes=draw(some(1, 2, 2, 3)),
        devices=draw(some(0, 1, 2, 4, 4)),
        processes=draw(some(None, None, None, 1, 2, 4)),
    )
