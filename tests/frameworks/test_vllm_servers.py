"""vllm: the flags of a server are read as vLLM reads them, and what it would refuse, ignore or leave idle is told."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from muster.strategies.frameworks.vllm import serve_arguments, vllm_flags
from muster.strategies.launches import readings
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.readings import Reading
from tests.frameworks.builders import enforce, found, gpus, jobset, replicated_job, runtime, trainjob

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
FEATURES = "muster.dev/vllm-features"
OURS = "registry.example/muster-dev/vllm:0.1.0"
AT_NODE_0, AT_HEAD = "--master-addr=a-node-0-0.a", "--data-parallel-address=a-node-0-0.a"
SMALL, SEVEN, EIGHT = "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-7B", "meta-llama/Llama-3.1-8B"


def server(line, *, count=0, image=OURS, annotations=None, **container):
    """A JobSet of one server that starts `line`, or a list of words."""
    words = line.split() if isinstance(line, str) else line
    own = {"name": "server", "image": image, "command": words, "resources": gpus(count), **container}
    return jobset(replicated_job("server", own), framework="vllm", annotations=annotations)


def judged(line, **more):
    """The findings after Muster completed the job."""
    return found("vllm", enforce("vllm", server(line, **more)).document)


def told(line, **more):
    return [(each.severity, each.rule) for each in judged(line, **more)]


# --- reading --------------------------------------------------------------------------------------------------------

READ = {
    "a short flag": ("-tp 4 -dp=2", {"tensor-parallel-size": "4", "data-parallel-size": "2"}),
    "a letter with its value": ("-n2", {"nnodes": "2"}),
    "an abbreviation": ("--tensor-par 4", {"tensor-parallel-size": "4"}),
    "underscores": ("--tensor_parallel_size=4", {"tensor-parallel-size": "4"}),
    "an alias": ("--device-memory-utilization .5", {"gpu-memory-utilization": ".5"}),
    "a member of JSON": ("--speculative-config.num_tokens 3", {"speculative-config": "3"}),
    "a level": ("-O3", {"optimization-level": "3"}),
    "several values": ("--lora-modules a=b c=d --port 1", {"lora-modules": "a=b c=d", "port": "1"}),
    "a negative value": ("--max-model-len -1", {"max-model-len": "-1"}),
    "the last of two": ("--port 1 --port 2", {"port": "2"}),
}


@pytest.mark.parametrize(("line", "values"), READ.values(), ids=READ)
def test_flags_are_read_by_every_spelling(line, values):
    parsed = serve_arguments.parse(line.split())
    assert (parsed.values, parsed.faults, parsed.unknown, parsed.positionals) == (values, [], [], [])


def test_a_switch_and_its_negation_are_one_flag_and_the_last_wins():
    parsed = serve_arguments.parse(["--enable-lora", "--no-enable-lora", "--no-async-scheduling"])
    assert (parsed.values, parsed.off) == ({}, {"enable-lora", "async-scheduling"})
    assert [given.value for given in parsed.given["enable-lora"]] == ["", "no"]
    assert serve_arguments.differ(parsed.given["enable-lora"])


def test_a_value_that_only_the_pod_knows_is_never_judged():
    parsed = serve_arguments.parse(["m", "--port", "$(PORT)", "--dtype=$DTYPE", "--port", "1", "$(EXTRA)"])
    assert parsed.faults == []
    assert not any(serve_arguments.differ(every) for every in parsed.given.values())
    assert parsed.opaque == [(6, "$(EXTRA)")]


def test_the_table_says_which_version_it_is_of():
    assert vllm_flags.version() == "0.31.0"
    assert vllm_flags.elsewhere("--swap-space")[0] == "0.8.5"
    assert vllm_flags.elsewhere("--no-enable-prompt-adapter") == ["0.8.5"]
    with pytest.raises(KeyError):
        vllm_flags.known("--swap-space")


# --- unknown, wrong, repeated ---------------------------------------------------------------------------------------

WRONG = {
    "a typo": ("vllm serve m --tensor-paralel-size 4", "vllm/unknown-flag", "did you mean --tensor-parallel-size?"),
    "nothing like it": ("vllm serve m --frobnicate", "vllm/unknown-flag", "remove it"),
    "a flag of older versions": (
        "vllm serve m --swap-space 4",
        "vllm/unknown-flag",
        "is a flag of vLLM 0.8.5 to 0.16.0",
    ),
    "no number": ("vllm serve m --port http", "vllm/arguments", "'http', which is not a whole number"),
    "no such choice": ("vllm serve m --dtype float8", "vllm/arguments", "not one of auto, bfloat16"),
    "no number where only some are allowed": (
        "vllm serve m --max-lora-rank many",
        "vllm/arguments",
        "'many', which is not a whole number",
    ),
    "no value": ("vllm serve m --port", "vllm/arguments", "needs a value after it"),
    "a value too many": ("vllm serve m --enable-lora=true", "vllm/arguments", "takes no value"),
    "limits in the form of older versions": (
        "vllm serve m --limit-mm-per-prompt image=4",
        "vllm/arguments",
        "not JSON",
    ),
    "JSON in single quotes": (
        ["vllm", "serve", "m", "--hf-config-path", "p", "-sc", "{'a': 1}"],
        "vllm/arguments",
        "not JSON",
    ),
    "JSON that does not end": (
        ["vllm", "serve", "m", "--kv-transfer-config", '{"a": 8m'],
        "vllm/arguments",
        "not JSON",
    ),
    "an ambiguous abbreviation": ("vllm serve m --data-par 2", "vllm/arguments", "is ambiguous"),
    "two models": ("vllm serve m n", "vllm/arguments", "takes one model"),
    "a model and its flag": ("vllm serve m --model n", "vllm/arguments", "takes one model"),
    "a port that does not exist": ("vllm serve m --port 70000", "vllm/arguments", "is not a port"),
    "two words in one": (["vllm", "serve", "m", "-tp 4"], "vllm/arguments", "as one word"),
    "a file of another kind": ("vllm serve m --config f.json", "vllm/config-file", ".yaml or .yml"),
    "a flag twice": ("vllm serve m --port 1 --port=2", "vllm/repeated-flag", "takes the last of 1 and 2"),
    "a switch and its negation": ("vllm serve m --enable-lora --no-enable-lora", "vllm/repeated-flag", "on and off"),
}


@pytest.mark.parametrize(("line", "rule", "words"), WRONG.values(), ids=WRONG)
def test_what_vllm_would_refuse_or_drop_is_an_error(line, rule, words):
    (finding,) = judged(line)
    assert (finding.severity, finding.rule) == (ERROR, rule)
    assert words in finding.message


def test_a_finding_names_the_word_that_it_is_about():
    (finding,) = judged("vllm serve m --dtype float8")
    assert finding.field.endswith("containers[server].command[3]")


QUIET = {
    "the same value twice": "vllm serve m --port 1 --port=01",
    "a flag that adds each time": "vllm serve m --middleware a --middleware b",
    "a human number": "vllm serve m --max-model-len 16k",
    "any model length": "vllm serve m --max-model-len auto",
    "no value for a token": "vllm serve m --hf-token",
    "JSON by its members": 'vllm serve m --compilation-config.mode 3 -cc.pass_config={"a":1}',
    "a member of the JSON twice": "vllm serve m --hf-overrides.a 1 --hf-overrides.b 2",
    "a word that may be anything": "vllm serve m $(EXTRA) $(MORE)",
    "a model that only the pod knows": "vllm serve $(MODEL)",
}


@pytest.mark.parametrize("line", QUIET.values(), ids=QUIET)
def test_what_vllm_takes_is_not_mentioned(line):
    assert told(line) == []


def test_an_image_of_the_user_may_hold_another_vllm():
    line = "vllm serve m --frobnicate --swap-space 4 --port x"
    theirs = {"image": "their/server:1"}
    assert told(line, **theirs) == [
        (WARNING, "vllm/unknown-flag"),
        (NOTE, "vllm/unknown-flag"),
        (WARNING, "vllm/arguments"),
    ]
    assert told(line, image="vllm/vllm-openai:v0.10.2")[0] == (WARNING, "vllm/unknown-flag")
    assert told(line, image="vllm/vllm-openai:v0.31.0")[0] == (ERROR, "vllm/unknown-flag")
    assert told("vllm serve m --tensor-paralel-size 4", **theirs) == [(ERROR, "vllm/unknown-flag")]
    assert told("vllm serve m --port 1 --port 2", **theirs) == [(ERROR, "vllm/repeated-flag")]


def test_a_trainjob_is_judged_by_the_image_of_its_runtime():
    governing = runtime("vllm", policy={}, image="platform/server:7")
    own = {"command": ["vllm", "serve", "m", "--frobnicate"]}
    assert [each.severity for each in found("vllm", trainjob(own), governing)] == [ERROR]
    assert [each.severity for each in found("vllm", trainjob({**own, "image": "x"}), governing)] == [WARNING]


# --- models ---------------------------------------------------------------------------------------------------------


def test_the_module_reads_no_model_without_its_flag():
    (finding,) = judged("python3 -m vllm.entrypoints.openai.api_server m")
    assert (finding.severity, finding.rule, finding.value) == (ERROR, "vllm/model", "m")
    assert told("python3 -m vllm.entrypoints.openai.api_server --model m") == []


def test_a_model_that_a_flag_with_many_values_takes_is_missed():
    assert told("vllm serve --api-key k m") == [(WARNING, "vllm/model")]


def test_a_file_that_is_attached_to_its_flag_is_not_read():
    assert told("vllm serve m --config=f.yaml") == [(WARNING, "vllm/config-file")]


# --- sizes ----------------------------------------------------------------------------------------------------------

WRITTEN = {
    "heads that the GPUs divide": (EIGHT, "", 8, "8"),
    "fourteen heads on two GPUs": (SMALL, "", 2, "2"),
    "fourteen heads on four GPUs": (SMALL, "", 4, None),
    "fourteen heads on four GPUs in two replicas": (SMALL, "-dp 2", 4, "2"),
    "twenty-eight heads on four GPUs": (SEVEN, "", 4, "4"),
    "twenty-eight heads on eight GPUs": (SEVEN, "", 8, None),
    "three GPUs": (EIGHT, "", 3, None),
    "six GPUs": ("meta-llama/Llama-3.2-3B", "", 6, None),
    "prefill context": (EIGHT, "-pcp 2", 4, "2"),
    "decode context that divides it": (EIGHT, "-dcp 2", 4, "4"),
    "decode context that does not": ("deepseek-ai/DeepSeek-V3", "-dcp 3", 4, None),
    "experts": ("m", "--enable-expert-parallel", 4, "4"),
    "a word that may be its size": (EIGHT, "$(EXTRA)", 4, None),
}


@pytest.mark.parametrize(("model", "more", "count", "size"), WRITTEN.values(), ids=WRITTEN)
def test_a_tensor_parallel_size_is_written_where_it_divides_the_heads(model, more, count, size):
    argv = enforce("vllm", server(f"vllm serve {model} {more}", count=count)).argv
    assert (argv[argv.index("--tensor-parallel-size") + 1] if "--tensor-parallel-size" in argv else None) == size


ADVICE = {
    "fourteen heads": (f"{SMALL}", 4, "3 of 4 GPUs are idle", "--tensor-parallel-size 2 and --data-parallel-size 2"),
    "twenty-eight heads": (
        f"{SEVEN}",
        8,
        "7 of 8 GPUs are idle",
        "--tensor-parallel-size 4 and --data-parallel-size 2",
    ),
    "an unknown model on six": ("m", 6, "5 of 6 GPUs are idle", "--tensor-parallel-size 2 and --data-parallel-size 3"),
    "three": ("m", 3, "2 of 3 GPUs are idle", "set --data-parallel-size 3"),
    "a size that is too small": ("m -tp 2", 8, "6 of 8 GPUs are idle", "set --tensor-parallel-size 8"),
    "a small size of two replicas": ("m -tp 1 -dp 2", 8, "6 of 8 GPUs are idle", "set --tensor-parallel-size 4"),
    "pipelines that do not fit": ("m -pp 3", 4, "1 of 4 GPUs are idle", "change its tensor, pipeline or data"),
    "two local replicas": (
        f"m -dp 8 -dpl 2 {AT_HEAD}",
        8,
        "6 of 8 GPUs are idle",
        "change its tensor, pipeline or data",
    ),
    "a rank of its own": ("m -dp 8 --data-parallel-rank 3", 2, "1 of 2 GPUs are idle", "change its"),
    "a node of two": (f"m -tp 4 --nnodes 2 --node-rank 0 {AT_NODE_0}", 8, "6 of 8 GPUs are idle", "change its"),
}


@pytest.mark.parametrize(("words", "count", "idle", "advice"), ADVICE.values(), ids=ADVICE)
def test_idle_gpus_are_counted_with_what_to_set(words, count, idle, advice):
    (finding,) = judged(f"vllm serve {words}", count=count)
    assert (finding.severity, finding.rule) == (WARNING, "vllm/parallel-size")
    assert finding.message.startswith(f"{idle} on each node: ")
    assert advice in finding.message


def test_the_advice_says_when_heads_are_the_reason():
    (finding,) = judged(f"vllm serve {SMALL}", count=4)
    assert finding.message.endswith("because Qwen2.5-0.5B-Instruct has 14 attention heads and 2 key-value heads")


TOO_MANY = [
    "-tp 8",
    "-tp 2 -pcp 4",
    "-dp 2 -tp 2 -pp 2",
    f"-dp 16 -dpl 8 {AT_HEAD}",
    f"-tp 16 --nnodes 2 {AT_NODE_0}",
    "-dp 9 -dpn 1 -tp 5",
]


@pytest.mark.parametrize("words", TOO_MANY)
def test_more_gpus_than_the_pod_has_are_an_error(words):
    assert told(f"vllm serve m {words}", count=4) == [(ERROR, "vllm/parallel-size")]


ENOUGH = {
    "all": "-tp 4",
    "decode context reuses them": "-tp 4 -dcp 2",
    "experts are spread over the same": "-tp 2 -dp 2 --enable-expert-parallel",
    "replicas of several pods": f"-dp 8 -dpl 4 {AT_HEAD}",
    "a hybrid balance": "-dp 8 -dpl 4 --data-parallel-hybrid-lb",
    "a rank of its own": "-tp 4 -dp 8 --data-parallel-rank 3",
    "several nodes": f"-tp 8 --nnodes 2 --node-rank 1 --headless {AT_NODE_0}",
    "headless replicas": f"-dp 8 -dpl 4 --data-parallel-start-rank 4 --headless {AT_HEAD}",
    "Ray": "-tp 16 --distributed-executor-backend ray",
    "replicas on Ray": "-dp 16 --data-parallel-backend=ray",
    "a size that only the pod knows": "-tp $(TP)",
    "a file": "--config f.yaml -tp 16",
    "a huge number that is not one": "-tp $(A)99999999999999999999",
}


@pytest.mark.parametrize("words", ENOUGH.values(), ids=ENOUGH)
def test_sizes_that_fit_or_cannot_be_seen_are_not_mentioned(words):
    assert told(f"vllm serve m {words}", count=4) == []


BATCHES = {
    "tokens in words": "--max-num-batched-tokens 8K --max-num-seqs 8192",
    "chunks of a long prompt": "--max-num-batched-tokens 2048 --max-model-len 8192",
    "chunks that are asked for": "--enable-chunked-prefill --max-num-batched-tokens 2048 --max-model-len 8192",
    "a length that is found": "--no-enable-chunked-prefill --max-num-batched-tokens 2048 --max-model-len auto",
    "tokens by default": "--no-enable-chunked-prefill --max-model-len 1m --max-num-seqs 100000",
    "tokens that only the pod knows": "--max-num-batched-tokens $(N) --max-num-seqs 512",
    "a file": "--config f.yaml --max-num-batched-tokens 256 --max-num-seqs 512",
    "a number of no sense": "--max-num-batched-tokens 99999999999999999999 --max-num-seqs 512",
}


@pytest.mark.parametrize("words", BATCHES.values(), ids=BATCHES)
def test_batches_that_fit_or_cannot_be_seen_are_not_mentioned(words):
    assert told(f"vllm serve m {words}") == []


JSON = ('{"image": 4}', '{"bytes": 80m, "name": "8m"}', "3", "[]", '{"a": "$(X)"}', "$(JSON)")


@pytest.mark.parametrize("text", JSON)
def test_json_that_vllm_reads_is_not_mentioned(text):
    assert told(["vllm", "serve", "m", "--limit-mm-per-prompt", text]) == []
    assert told(["vllm", "serve", "m", f"--limit-mm-per-prompt={text}"]) == []


def test_a_member_of_json_is_no_json_itself():
    assert told("vllm serve m --limit-mm-per-prompt.image 4 --kv-transfer-config.kv_role kv_both") == []


def test_a_size_that_the_user_wrote_is_compared_with_the_heads():
    (finding,) = judged(f"vllm serve {SEVEN} -tp 8", count=8)
    assert (finding.severity, finding.rule, finding.value) == (WARNING, "vllm/heads", "--tensor-parallel-size 8")
    assert "set --tensor-parallel-size 4 and --data-parallel-size 2" in finding.message
    assert told(f"vllm serve {SEVEN} -tp 8 --config f.yaml", count=8) == []


def test_a_huge_size_costs_nothing():
    assert told("vllm serve m -tp 999999999 -dp 999999999", count=4) == [(ERROR, "vllm/parallel-size")]
    assert told(f"vllm serve m -tp {'9' * 4000}", count=4) == []


# --- what excludes each other ---------------------------------------------------------------------------------------

EXCLUDED = {
    "tool choice without a parser": "--enable-auto-tool-choice",
    "outputs that are logged without requests": "--enable-log-outputs",
    "balanced experts without experts": "--enable-eplb",
    "a key without a certificate": "--ssl-keyfile k",
    "two ways to balance": "-dp 2 -dpl 2 --data-parallel-hybrid-lb --data-parallel-external-lb --data-parallel-rank 0",
    "a hybrid balance of unknown size": "-dp 2 --data-parallel-hybrid-lb",
    "a rank without others": "--data-parallel-rank 0",
    "more local replicas than replicas": "-dp 2 -dpl 4",
    "a rank that does not exist": "-dp 2 --data-parallel-rank 2",
    "decode context that does not divide": "-tp 4 -dcp 3",
    "a headless server that answers": f"-dp 4 -dpl 2 --headless --api-server-count 2 {AT_HEAD}",
    "a headless server that balances": "-dp 4 -dpl 2 --headless --data-parallel-hybrid-lb",
    "nodes that do not divide the world": f"-tp 8 --nnodes 3 {AT_NODE_0}",
    "a rank that the nodes do not have": f"-tp 8 --nnodes 2 --node-rank 2 {AT_NODE_0}",
    "elastic experts that nobody balances": "-dp 4 --enable-elastic-ep",
    "nodes of memory without binding": "--numa-bind-nodes 0",
    "redundant experts that nobody balances": '--eplb-config {"num_redundant_experts":2}',
    "a balance that is told at no time": (
        "--enable-eplb --enable-expert-parallel -dp 2 "
        '--eplb-config {"log_balancedness":true,"log_balancedness_interval":0}'
    ),
    "a pause below 0": "--sse-keep-alive-interval -5",
    "n-grams of no number": '--speculative-config {"method":"ngram"}',
    "no speculative token": '--speculative-config {"method":"ngram","num_speculative_tokens":0}',
    "a size of another name": '--speculative-config {"model":"d","num_speculative_tokens":2,"tensor_parallel_size":1}',
    "metrics without statistics": "--enable-per-request-metrics --disable-log-stats",
    "Nsight of nobody": "--ray-workers-use-nsight",
    "a length of nothing": "--max-model-len 0",
    "more adapters at once than kept": "--enable-lora --max-loras 4 --max-cpu-loras 2",
    "nodes beside Ray": f"-tp 16 --nnodes 2 --distributed-executor-backend ray {AT_NODE_0}",
    "a long prefill above the length": "--max-model-len 4K --long-prefill-token-threshold 8192",
    "fewer tokens than sequences": "--max-num-batched-tokens 0.5k --max-num-seqs 512",
    "fewer tokens than a prompt in one piece": (
        "--no-enable-chunked-prefill --max-num-batched-tokens 2048 --max-model-len 4K"
    ),
}


@pytest.mark.parametrize("words", EXCLUDED.values(), ids=EXCLUDED)
def test_flags_that_vllm_refuses_together_are_an_error(words):
    (finding,) = judged(f"vllm serve m {words}", image="their/own:1")
    severity = WARNING if "--long-prefill-token-threshold" in words else ERROR  # vLLM 0.25 takes it
    assert (finding.severity, finding.rule) == (severity, "vllm/contradiction")
    assert told(f"vllm serve m {words} --config f.yaml") == []


ALLOWED = [
    "--enable-auto-tool-choice --tool-call-parser hermes",
    "--enable-lora --max-loras 4",
    f"-dp 4 -dpl 2 --headless {AT_HEAD}",
    f"-dp 4 -dpl 2 --headless --api-server-count 0 {AT_HEAD}",
    "-dp 2 -dpl $(LOCAL)",
    "--ssl-certfile c",
    f"-tp 8 -pp 2 --nnodes 4 --node-rank 3 {AT_NODE_0}",
    f"-tp $(SIZE) --nnodes 3 {AT_NODE_0}",
    "--nnodes 1 --node-rank 0",
]


@pytest.mark.parametrize("words", ALLOWED)
def test_flags_that_go_together_are_not_mentioned(words):
    assert told(f"vllm serve m {words}") == []


OUT_OF_RANGE = {
    "a percentage": ("--gpu-memory-utilization 95", "above 0 and at most 1"),
    "an alias": ("--device-memory-utilization=1.01", "above 0 and at most 1"),
    "no memory": ("--gpu-memory-utilization 0", "above 0"),
    "a size of nothing": ("-tp 0", "at least 1"),
    "a size below nothing": ("-dp -1", "at least 1"),
    "no requests": ("--max-num-seqs 0", "at least 1"),
}


@pytest.mark.parametrize(("words", "said"), OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_a_number_that_the_configuration_of_vllm_refuses_is_an_error_in_every_image(words, said):
    (finding,) = judged(f"vllm serve m {words}", image="their/own:1")
    assert (finding.severity, finding.rule) == (ERROR, "vllm/value")
    assert said in finding.message
    assert told(f"vllm serve m {words} --config f.yaml") == []


def test_a_limit_that_another_version_may_not_have_is_a_warning_where_the_image_is_the_users_own():
    assert told("vllm serve m --stream-interval 0") == [(ERROR, "vllm/value")]
    assert told("vllm serve m --stream-interval 0", image="their/own:1") == [(WARNING, "vllm/value")]


@pytest.mark.parametrize(
    "words",
    [
        "--gpu-memory-utilization 1",
        "--gpu-memory-utilization=.95",
        "--gpu-memory-utilization $(PART)",
        "--gpu-memory-utilization 1e-3",
        "--max-num-batched-tokens 16k",
        "--max-num-queued-tokens None",
        "--watermark 0",
        "--max-model-len -1",
    ],
)
def test_a_number_in_its_range_is_not_mentioned(words):
    assert told(f"vllm serve m {words}") == []


@pytest.mark.parametrize("line", ["vllm serve m -tp $(TP)", ["bash", "-c", "exec vllm serve m -tp $TP"]])
def test_a_variable_of_the_container_is_read_as_its_value(line):
    def of(value):
        found_ = told(line, count=4, env=[{"name": "TP", "value": value}])
        return [each for each in found_ if each[1] == "vllm/parallel-size"]

    assert of("4") == []
    assert len(of("8")) == 1
    assert told(line, count=4, env=[{"name": "TP", "valueFrom": {"fieldRef": {}}}])[-1:] != [
        (ERROR, "vllm/parallel-size")
    ]


def test_a_variable_that_the_shell_sets_again_is_not_read_from_the_container():
    line = ["bash", "-c", "TP=$(nproc)\nexec vllm serve m -tp $TP"]
    assert "vllm/parallel-size" not in [rule for _, rule in told(line, count=4, env=[{"name": "TP", "value": "8"}])]


def test_a_value_of_several_words_is_one_argument_as_kubernetes_divides_nothing():
    (finding,) = judged("vllm serve m $(MORE)", env=[{"name": "MORE", "value": "-tp 2 -pp 2"}])
    assert "one word" in finding.message


def test_devices_that_cuda_visible_devices_hides_are_not_used():
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}]
    (finding,) = judged("vllm serve m -tp 4", count=4, env=env)
    assert (finding.severity, finding.rule) == (ERROR, "vllm/parallel-size")
    assert "CUDA_VISIBLE_DEVICES leaves 2 of 4" in finding.message
    (idle,) = judged("vllm serve m -tp 2", count=4, env=env)
    assert "remove CUDA_VISIBLE_DEVICES" in idle.message
    completed = enforce("vllm", server("vllm serve m", count=4, env=env)).document
    words = completed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert "--tensor-parallel-size 2" in " ".join([*words["command"], *words.get("args", ())])


UPDATES = [{"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "True"}]


def test_adapters_are_updated_by_one_api_server_only():
    assert told("vllm serve m --api-server-count 2", env=UPDATES) == [(ERROR, "vllm/contradiction")]
    assert told("vllm serve m -dp 2", env=UPDATES) == [(ERROR, "vllm/contradiction")]
    for words in ("-asc 1 -dp 2", "-dp 2 -dpn 1", "-dp 2 -dpl 1 --data-parallel-hybrid-lb", "-dp $(N)", "--grpc -dp 2"):
        assert told(f"vllm serve m {words}", env=UPDATES) == []
    assert told("vllm serve m -dp 2", env=[{**UPDATES[0], "value": "0"}]) == []
    assert told("python -m vllm.entrypoints.openai.api_server --model m -dp 2", env=UPDATES) == []


def test_the_feature_lora_asks_for_one_api_server_where_several_would_run():
    asked = {FEATURES: "lora"}
    out = enforce("vllm", server("vllm serve m -dp 2", count=2, annotations=asked))
    assert out.argv[-3:] == ["--enable-lora", "--api-server-count", "1"]
    assert out.env == {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    assert [(each.severity, each.rule) for each in out.changes.findings] == [(WARNING, "vllm/features")]
    assert found("vllm", out.document) == []
    assert "--api-server-count" not in enforce("vllm", server("vllm serve m", annotations=asked)).argv


def test_the_feature_lora_is_refused_where_several_api_servers_are_written():
    out = enforce("vllm", server("vllm serve m --api-server-count 2", annotations={FEATURES: "lora"}))
    assert out.env == {}
    (finding,) = found("vllm", out.document)
    assert (finding.severity, finding.rule) == (ERROR, "vllm/features")


# --- probes ---------------------------------------------------------------------------------------------------------

SILENT = ["--grpc", "--ssl-certfile c --ssl-ca-certs ca --ssl-cert-reqs 2", "--ssl-certfile c --ssl-cert-reqs=2"]


@pytest.mark.parametrize("words", SILENT)
def test_no_probe_over_http_is_added_where_none_would_be_answered(words):
    out = enforce("vllm", server(f"vllm serve m {words}"))
    assert not out.container.keys() & {"startupProbe", "readinessProbe", "livenessProbe"}
    assert [(each.severity, each.rule) for each in out.changes.findings] == [(NOTE, "vllm/probes")]


def test_a_probe_over_http_that_is_never_answered_is_told():
    probe = {"livenessProbe": {"httpGet": {"path": "/health", "port": 8000}}}
    assert told("vllm serve m --grpc", **probe) == [(WARNING, "vllm/probes")]
    assert told("vllm serve m --grpc --port 9000", **probe) == []
    assert told("vllm serve m --grpc", livenessProbe={"grpc": {"port": 8000}}) == []


@pytest.mark.parametrize(
    "words", ["--ssl-certfile c --ssl-cert-reqs 1", "--api-key k", "--root-path /v", "--no-enable-lora"]
)
def test_other_ways_to_guard_a_server_keep_its_probes(words):
    assert enforce("vllm", server(f"vllm serve m {words}")).container["readinessProbe"]["httpGet"]["port"] == 8000


@pytest.mark.parametrize("port", ["0", "99999999"])
def test_a_port_that_is_chosen_at_run_time_is_not_asked(port):
    assert "readinessProbe" not in enforce("vllm", server(f"vllm serve m --port {port}")).container


def test_the_module_does_not_speak_grpc_and_the_grpc_server_is_left_alone():
    module = enforce("vllm", server("python -m vllm.entrypoints.openai.api_server --model m --grpc"))
    assert "readinessProbe" in module.container
    other = enforce("vllm", server("python -m vllm.entrypoints.grpc_server --model m -tp 2", count=4))
    assert len(other.changes) == 0
    assert [each.rule for each in found("vllm", other.document)] == ["vllm/parallel-size"]


# --- inside wrappers and shells -------------------------------------------------------------------------------------


@pytest.fixture
def inside(monkeypatch):
    """Let a command line be read as these launches, as `launches.readings` reads wrappers and shells."""

    def read(*texts, certain=True, unread=()):
        each = (text.split() for text in texts)
        launches = tuple(
            Launch(Launcher.VLLM, ("vllm",), target="serve", rest=tuple(rest), through=("bash",), certain=certain)
            for _, _, *rest in each
        )
        monkeypatch.setattr(readings, "read", lambda _argv: Reading(launches, unread))

    return read


def test_a_server_inside_a_shell_is_judged_and_not_changed(inside):
    inside("vllm serve m -tp 2 --frobnicate")
    out = enforce("vllm", server(["bash", "-c", "..."], count=4))
    assert len(out.changes) == 0
    assert [(each.severity, each.rule) for each in out.changes.findings] == [(NOTE, "vllm/not-enforced")]
    assert "runs inside bash" in out.changes.findings[0].message
    told_of = found("vllm", out.document)
    assert [(each.severity, each.rule) for each in told_of] == [
        (ERROR, "vllm/unknown-flag"),
        (WARNING, "vllm/parallel-size"),
    ]
    assert all(each.field.endswith("containers[server].command") for each in told_of)


def test_a_right_server_inside_a_shell_is_not_mentioned(inside):
    inside("vllm serve m -tp 4")
    assert told(["bash", "-c", "..."], count=4) == []


def test_servers_that_share_a_container_are_not_called_idle_nor_refused(inside):
    half = "--gpu-memory-utilization 0.4"
    inside(f"vllm serve m -tp 2 {half}", f"vllm serve n -tp 2 {half} --port x")
    assert told(["bash", "-c", "..."], count=4) == [(WARNING, "vllm/arguments")]


def test_servers_that_take_more_than_one_gpu_together_are_told(inside):
    inside("vllm serve m", "vllm serve n --gpu-memory-utilization 0.5")
    assert told(["bash", "-c", "..."], count=1) == [(WARNING, "vllm/meeting")]


def test_servers_that_have_a_gpu_each_are_not_mentioned():
    line = "CUDA_VISIBLE_DEVICES=0 vllm serve m & CUDA_VISIBLE_DEVICES=1 vllm serve n --port 8001 & wait"
    assert "vllm/meeting" not in [rule for _, rule in told(["bash", "-c", line], count=2)]


def of_two_pods(*commands):
    own = [{"name": "server", "image": OURS, "command": each, "resources": gpus(4)} for each in commands]
    job = replicated_job("server", *own)
    job["template"]["spec"] |= {"parallelism": 2, "completions": 2}
    return found("vllm", enforce("vllm", jobset(job, framework="vllm")).document)


NODES = ["vllm", "serve", "m", "-tp=8", "--nnodes=2", "--headless"]
MEETINGS = {
    "the address is missing": (["--node-rank=$(JOB_COMPLETION_INDEX)"], "is missing"),
    "the address is a loopback": (["--node-rank=$(JOB_COMPLETION_INDEX)", "--master-addr=127.0.0.1"], "own loopback"),
    "the head of the replicas is nowhere": (["-dp=4", "-dpl=2", "--nnodes=1"], "replicas of other pods"),
    "the head of the replicas is the pod itself": (
        ["-dp=4", "-dpl=2", "--nnodes=1", "--data-parallel-address=127.0.0.1"],
        "replicas of other pods",
    ),
    "all have rank 1": (["--node-rank=1", AT_NODE_0], "is 1 in all 2 pods"),
    "all have the rank 0 that is the default": ([AT_NODE_0], "is 0 in all 2 pods"),
}


@pytest.mark.parametrize(("words", "said"), MEETINGS.values(), ids=MEETINGS)
def test_nodes_of_an_engine_that_do_not_meet_are_told(words, said):
    (only,) = [each for each in of_two_pods([*NODES, *words]) if each.rule == "vllm/meeting"]

    assert (only.severity, said in only.message) == (WARNING, True)


BALANCED = (
    "-dp 4",
    "-dp 4 -dpl 2 -dpa a-node-0-0.a",
    "-dp 4 -dpl 2 --data-parallel-backend ray",
    "-dp 4 --data-parallel-rank 1",
)


@pytest.mark.parametrize("words", BALANCED)
def test_replicas_that_are_here_or_find_their_head_are_not_mentioned(words):
    assert "vllm/meeting" not in [rule for _, rule in told(f"vllm serve m {words}", count=4)]


def test_a_model_of_an_object_store_is_streamed():
    assert (ERROR, "vllm/contradiction") in told("vllm serve s3://b/m --load-format safetensors")
    for words in ("s3://b/m", "s3://b/m --load-format runai_streamer", "/models/m --load-format safetensors"):
        assert "vllm/contradiction" not in [rule for _, rule in told(f"vllm serve {words}")]


def test_nodes_of_an_engine_that_meet_are_not_mentioned():
    words = [*NODES, "--node-rank=$(JOB_COMPLETION_INDEX)", AT_NODE_0]

    assert "vllm/meeting" not in [each.rule for each in of_two_pods(words)]


def test_a_server_in_a_branch_is_warned_about_only(inside):
    inside("vllm serve m -tp 8", certain=False)
    assert told(["bash", "-c", "..."], count=4) == [(WARNING, "vllm/parallel-size")]


# --- the job and its runtime ----------------------------------------------------------------------------------------


def served(own, **of_runtime):
    return enforce("vllm", trainjob(own), runtime("vllm", policy={}, **of_runtime))


def test_the_jobs_own_command_wins_over_the_args_of_its_runtime():
    governing = {
        "command": ["vllm", "serve"],
        "args": ["b", "--port", "1", "--dtype=half", "-tp", "2", "--enable-lora"],
    }
    own = {"command": ["vllm", "serve", "a", "--port", "9", "--no-enable-lora"]}
    out = served(own, **governing)
    assert out.argv == [*own["command"], "--dtype=half", "-tp", "2", *("--host", "0.0.0.0")]
    (change,) = (each for each in out.changes if each.rule == "vllm/serve" and "args" in str(each))
    assert "own words win over its runtime, which also gives --port, --enable-lora, the model" in change.reason
    assert found("vllm", out.document, runtime("vllm", policy={}, **governing)) == []


def test_the_jobs_own_args_stand_behind_the_command_of_its_runtime_and_win():
    governing = {"command": ["vllm", "serve", "a", "--port", "1"]}
    out = served({"args": ["--port", "9"]}, **governing)
    assert out.argv == ["--port", "9", "--host", "0.0.0.0"]
    assert found("vllm", out.document, runtime("vllm", policy={}, **governing)) == []


def test_the_jobs_own_args_are_judged_for_themselves():
    governing = runtime("vllm", policy={}, command=["vllm", "serve", "a", "--port", "1"])
    findings = found("vllm", trainjob({"args": ["--port", "8", "--port", "9"]}), governing)
    assert [(each.severity, each.rule) for each in findings] == [(ERROR, "vllm/repeated-flag")]
