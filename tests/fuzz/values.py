"""Hostile values: numbers, texts, command lines and trees that no sensible person writes.

Every function takes the `random.Random` of its case, so that a case depends on its number alone.
"""

from __future__ import annotations

import json

from tests.fuzz import cases

__all__ = ["ANNOTATIONS", "PODS", "WORDS", "anything", "command", "count", "note", "number", "text", "tree"]

_NUMBERS = (
    *(0, 1, 2, 3, 8, -1, 255, 256, 65535, 65536, 10**6, 10**9, 2**31, 2**31 - 1, 2**32, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(2**63, 2**64 - 1, 0.5, 1.0, -0.0, 1e3, 1e308, -1e308, 5e-324, 1.5e9),
)
_RAW_NUMBERS = ("1" * 30, "9" * 5000, "-" + "9" * 40, "1e400", "1E5", "0.1e-999", "1" + "0" * 400 + ".5")
_TEXT_NUMBERS = (
    *(
        "0",
        "1",
        "2",
        "-1",
        "08",
        "1_000",
        "１２",
        "٣",
        "0x10",
        "1e3",
        "1e308",
        "1e999",
        "inf",
        "nan",
        "auto",
        "gpu",
        "cpu",
    ),
    *("1:4", "4:1", "1:", ":", "1:2:3", "-0", "+3", " 3 ", "3\n", "1.0", "2147483648", "9223372036854775808", "29500"),
    *("1" * 30, "9" * 400, "9" * 5000, "1" * 5000 + "Gi", "0" * 3000 + "1", "1e" + "9" * 30, "1" * 40 + "m"),
    *("1Gi", "8G", "500m", "1.5", "100Ei", "1n", "-4Gi", "1ki", "0.1", "1e3Mi", "Gi", "m", "."),
)
_CHARACTERS = (
    *"[](){}<>.,;:|&\\/'\"`$#!?*+-=~%^@ \t\n\r\0\x1b\x7f\x85_0aZ",
    *(
        "\u2028",
        "\u202e",
        "\ufeff",
        "é",
        "日",
        "😀",
        "\U0010ffff",
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    ),
    *(
        "[a",
        "${",
        "$(",
        "))",
        "${A:-",
        "<<E\n",
        "a=",
        "--a",
        "-a ",
        "&&",
        "||",
        "\\\n",
        "''",
        '""',
        "/../",
        "~1",
        "~0",
        "://",
        "@x",
    ),
    *("%s", "{0}", "{{", "!!", "*?", "a-", "a.", "0:", ",a", " a", "a ", "[0]", "](", "key=", "token ", "http://a@"),
)
_RAW_TEXTS = (r'"\\ud800"', r'"a\\udfffb"', r'"\\u0000"', r'"\\ud83d\\ude00"')
_WORDS = (
    *(
        "torchrun",
        "accelerate",
        "launch",
        "trl",
        "sft",
        "grpo",
        "dpo",
        "vllm",
        "serve",
        "tune",
        "run",
        "python",
        "python3",
    ),
    *(
        "-m",
        "torch.distributed.run",
        "trl.scripts.sft",
        "accelerate.commands.launch",
        "deepspeed",
        "mpirun",
        "-np",
        "horovodrun",
    ),
    *(
        "bash",
        "sh",
        "-c",
        "-lc",
        "-euo",
        "pipefail",
        "exec",
        "env",
        "-i",
        "-u",
        "-S",
        "nohup",
        "time",
        "timeout",
        "10",
        "nice",
        "-n",
    ),
    *(
        "sudo",
        "stdbuf",
        "-oL",
        "numactl",
        "--interleave=all",
        "--",
        "tini",
        "-s",
        "-g",
        "dumb-init",
        "xargs",
        "uv",
        "poetry",
        "conda",
    ),
    *(
        "ray",
        "start",
        "--head",
        "--block",
        "nsys",
        "profile",
        "-o",
        "py-spy",
        "record",
        "setsid",
        "ionice",
        "chrt",
        "taskset",
        "0-7",
    ),
    *(
        "train.py",
        "/entrypoint.sh",
        "main.py",
        "full_finetune_distributed",
        "--config",
        "llama3_2/1B_full",
        "lightning",
        "fit",
    ),
    *(
        "--nproc-per-node",
        "--nproc_per_node=8",
        "--nnodes",
        "--nnodes=1:4",
        "--node-rank",
        "--master-addr",
        "--master_port",
    ),
    *(
        "--rdzv-backend=c10d",
        "--rdzv-endpoint",
        "--rdzv-conf",
        "--rdzv_id",
        "--standalone",
        "--max-restarts=3",
        "--multi_gpu",
    ),
    *(
        "--num_processes",
        "--num-machines",
        "--machine_rank",
        "--main_process_ip",
        "--main_process_port",
        "--config_file",
        "--use_deepspeed",
    ),
    *(
        "--model_name_or_path=m",
        "--dataset_name",
        "--bf16",
        "--fp16",
        "true",
        "--accelerate_config",
        "fsdp2",
        "zero3",
        "--deepspeed",
    ),
    *(
        "--tensor-parallel-size",
        "-tp",
        "--pipeline-parallel-size=2",
        "--data-parallel-size",
        "--data-parallel-address",
        "--api-server-count",
    ),
    *(
        "--port",
        "9000",
        "--host",
        "0.0.0.0",
        "--model",
        "org/model",
        "--vllm_mode",
        "server",
        "--vllm_server_host",
        "--use_vllm",
    ),
    *(
        "--headless",
        "--nodes",
        "--gpus",
        "all",
        "--num-gpus=4",
        "--hub_tok",
        "--hub_token",
        "--report_to",
        "wandb",
        "--learning_rate=1e-5",
    ),
    *(
        "dataset.packed=True",
        "epochs=1",
        "model=[a,b]",
        "checkpointer={a: b}",
        "{{num_nodes}}",
        "$(PET_NNODES)",
        "${WORLD_SIZE}",
        "$RANK",
    ),
    *(
        "--vllm_server_base_url",
        "http://$(MUSTER_SAMPLER):8000",
        "http://rl-sampler-0-0.rl:8000",
        "http://[::1",
        "http://a:b@c:99999",
    ),
    *(
        "--vllm_server_port=" + "9" * 30,
        "--vllm_server_port",
        "8000",
        "--vllm_server_timeout",
        "--use_peft",
        "--lora_r=64",
    ),
    *(
        "--max_staleness",
        "--output_dir=/shared/out",
        "--model_revision",
        "main",
        "rloo",
        "trl.scripts.grpo",
        "vllm-serve",
    ),
    *(
        "trl.scripts.vllm_serve",
        "muster_weights.sampler.supervise",
        "--weight-transfer-config",
        '{"backend":"muster_files"}',
    ),
    *(
        '{"backend":[1]}',
        "[" * 900,
        "--logprobs-mode=raw_logprobs",
        "--enable-lora",
        "--max-loras=" + "9" * 5000,
        "--api-key",
        "x",
    ),
    *(
        "--max-lora-rank",
        "256",
        "--dtype=float16",
        "--uds",
        "--ssl-certfile",
        "--quantization",
        "fp8",
        "--revision",
        "--grpc",
    ),
    *(
        "&&",
        "||",
        ";",
        "|",
        "&",
        ">",
        "2>&1",
        "<<EOF",
        "if",
        "then",
        "else",
        "fi",
        "for",
        "in",
        "do",
        "done",
        "while",
        "case",
        "esac",
    ),
    *(
        "cd",
        "/work",
        "set",
        "-ex",
        "export",
        "A=1",
        "MASTER_ADDR=x",
        "CUDA_VISIBLE_DEVICES=0,1",
        "source",
        "activate",
        "pip",
        "install",
    ),
    *(
        "wait",
        "trap",
        "function",
        "()",
        "{",
        "}",
        "(",
        ")",
        "$((1+1))",
        "$(hostname)",
        "`id`",
        "[[",
        "]]",
        "!",
        "eval",
        "\\",
        "'",
        '"',
    ),
)
WORDS = _WORDS
ANNOTATIONS = {
    "muster.dev/applied": ("{}", "[]", "null", '{"v":1}', "x"),
    "muster.dev/claim-profile": ("quad", "plain", "seats", "strict", "tuned", "large", "none", "", "missing"),
    "muster.dev/resource-claims": (
        '[{"name":"gpu","profile":"quad"}]',
        '[{"name":"a","resourceClaimName":"two"},{"name":"b","resourceClaimTemplateName":"two"}]',
        '{"node":[{"name":"gpu","profile":"seats","containers":["node"]}]}',
        "[]",
        "{}",
    ),
    "muster.dev/seats": ('{"uid-a":{"pod":"a","job":"b","since":"2026-11-21T00:00:00Z"}}', "{}", "[]"),
    "muster.dev/spec-hash": ("x", ""),
    "muster.dev/rendezvous": ("static", "c10d", "none", "env", ""),
    "muster.dev/trl-method": ("sft", "dpo", "grpo", "x"),
    "muster.dev/vllm-features": ("sleep", "lora", "sleep,lora", "sleep," * 50, ","),
    "muster.dev/role": ("trainer", "sampler", "other"),
    "muster.dev/guard": ("off", "report", "enforce", "Off", ""),
    "muster.dev/mode": ("enforce", "warn", "audit", "off", "Off"),
    "muster.dev/profile": ("quad", "seats"),
    "muster.dev/training": ('{"outcome":"failed","ranks":[0]}', "{}", "x"),
    "muster.dev/config-digest": ("x",),
    "muster.dev/lease": ('{"holder":"a","until":1}', "{}", "x"),
    "muster.dev/Applied": ("x",),
    "muster.dev": ("x",),
    "trainer.kubeflow.org/framework": ("torch", "trl", "torchtune", "vllm", "jax", "", "default", "Torch"),
    "trainer.kubeflow.org/trainjob-ancestor-step": ("trainer", "dataset-initializer", "x"),
    "kueue.x-k8s.io/queue-name": ("gpus",),
    "alpha.jobset.sigs.k8s.io/exclusive-topology": ("kubernetes.io/hostname",),
}
_ENV = (
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "PET_NNODES"),
    *(
        "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
        "PET_RDZV_BACKEND",
        "PET_RDZV_ENDPOINT",
    ),
    *(
        "MUSTER_EXPECTED_WORLD_SIZE",
        "ACCELERATE_NUM_PROCESSES",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "VLLM_PORT",
    ),
    *(
        "VLLM_HOST_IP",
        "RAY_ADDRESS",
        "NCCL_SOCKET_IFNAME",
        "HF_HOME",
        "OMP_NUM_THREADS",
        "FSDP_VERSION",
        "SLURM_NTASKS",
        "MUSTER_SAMPLER",
        "MUSTER_WEIGHTS_FOLDER",
        "VLLM_SERVER_DEV_MODE",
        "VLLM_API_KEY",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
        "PATH",
        "",
    ),
)
PODS = {
    "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "two"}, {"name": "b", "resourceClaimName": "own"}],
    "schedulingGates": [{"name": "muster.dev/seat"}],
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "nodeSelector": {"pool": "training", "kubernetes.io/hostname": "n1"},
    "topologySpreadConstraints": [
        {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["training"]}]}]
            }
        }
    },
    "initContainers": [{"name": "side", "restartPolicy": "Always", "command": ["ray", "start", "--head"]}],
    "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ],
    "hostNetwork": True,
    "subdomain": "meet",
    "hostname": "h",
    "restartPolicy": "Always",
    "resources": {"limits": {"nvidia.com/gpu": 4}},
    "shareProcessNamespace": True,
    "runtimeClassName": "nvidia",
    "dnsPolicy": "None",
    "activeDeadlineSeconds": 1,
}
_KEYS = (
    "name",
    "spec",
    "value",
    "template",
    "a/b",
    "m~n",
    "~1",
    "",
    "[0]",
    "x]y",
    "a.b",
    "metadata",
    "日本",
    "\u202e",
    "-",
)


def number(random):
    """A number, or what a string in its place would be."""
    if random.random() < 0.15:
        return cases.raw(random.choice(_RAW_NUMBERS))
    return random.choice(_NUMBERS)


def count(random):
    """A number in a string."""
    return random.choice(_TEXT_NUMBERS)


def text(random):
    """Any text, short mostly; sometimes thousands of characters of one kind."""
    kind = random.random()
    if kind < 0.25:
        return random.choice(_TEXT_NUMBERS)
    if kind < 0.45:
        return random.choice(_WORDS)
    if kind < 0.55:
        return "".join(random.choice(_CHARACTERS) for _ in range(random.randint(0, 12)))
    if kind < 0.6:
        return cases.raw(random.choice(_RAW_TEXTS))
    if kind < 0.75:
        return shell(random)
    if kind < 0.9:
        return random.choice(_CHARACTERS) * _length(random)
    return "".join((random.choice(_CHARACTERS), random.choice(_CHARACTERS))) * _length(random)


def _length(random):
    return random.choice((1, 2, 3, 20, 64, 200, 253, 900, 2000, random.randint(1, 4000)))


def shell(random):
    """The text of a shell."""
    words = [word(random) for _ in range(random.randint(1, 12))]
    return random.choice((" ", " ", "\n", " ; ", " && ", " | ", "$(", "'", '"')).join(words)


def word(random):
    """One word of a command line."""
    kind = random.random()
    if kind < 0.75:
        return random.choice(_WORDS)
    if kind < 0.9:
        return f"{random.choice(_WORDS)}={random.choice(_TEXT_NUMBERS)}"
    return text(random)


def command(random):
    """A list of words."""
    words = [word(random) for _ in range(random.randint(0, 8))]
    if random.random() < 0.2:
        words = [
            random.choice(("bash", "sh", "/bin/sh", "zsh")),
            random.choice(("-c", "-lc", "-ec")),
            shell(random),
            *words[:2],
        ]
    if random.random() < 0.03:
        words *= random.choice((10, 100, 400))
    return words


def tree(random, depth=3):
    """Any JSON value."""
    kind = random.random()
    if depth <= 0 or kind < 0.5:
        return random.choice((None, True, False, number(random), text(random), count(random), {}, []))
    if kind < 0.55:
        return deep(random)
    if kind < 0.75:
        return [tree(random, depth - 1) for _ in range(random.randint(0, 3))]
    return {random.choice((*_KEYS, text(random)[:300])): tree(random, depth - 1) for _ in range(random.randint(0, 3))}


def deep(random):
    """Nesting, as text: no Python value is this deep."""
    times = random.choice((5, 30, 100, 240, 300, 900))
    inner, way = random.choice(("1", '"x"', "null")), random.choice(("[]", "{}"))
    return cases.raw("[" * times + inner + "]" * times if way == "[]" else '{"a":' * times + inner + "}" * times)


def anything(random, like):
    """A value for the place of another: mostly of its type, sometimes of any."""
    if random.random() < 0.15:
        return tree(random)
    if isinstance(like, bool):
        return not like
    if isinstance(like, (int, float)):
        return number(random)
    if isinstance(like, str):
        return text(random)
    return tree(random, 2)


def note(random, key):
    """A value of one of our annotations or labels."""
    usual = random.choice(ANNOTATIONS[key])
    kind = random.random()
    if kind < 0.5:
        return usual
    if kind < 0.8:
        return _bent_json(random, usual)
    return text(random)


def _bent_json(random, usual):
    try:
        value = json.loads(usual)
    except ValueError:
        value = tree(random)
    kind = random.random()
    if isinstance(value, list) and value and kind < 0.5:
        value *= random.choice((2, 10, 100))
    elif isinstance(value, dict) and kind < 0.7:
        value[random.choice(_KEYS)] = tree(random, 2)
    else:
        value = tree(random)
    written = json.dumps(value)
    if "@@raw" in written:
        return usual
    return "[" * 900 if kind > 0.97 else written


def entry(random):
    """An env entry."""
    found = {"name": random.choice(_ENV) if random.random() < 0.9 else text(random)}
    if random.random() < 0.8:
        found["value"] = random.choice((count(random), text(random), "x", "node-0.set", "$(RANK)", "auto"))
    else:
        found["valueFrom"] = random.choice(
            ({"fieldRef": {"fieldPath": "metadata.name"}}, {"secretKeyRef": {"name": "s", "key": "k"}}, {}, None)
        )
    return found
