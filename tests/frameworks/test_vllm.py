"""vllm: a server on all of its GPUs, reachable, probed, and with what was asked for; nothing written is changed."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import (
    enforce,
    found,
    gpus,
    initializer,
    jobset,
    jobset_of,
    replicated_job,
    runtime,
    trainjob,
)

FEATURES = "muster.dev/vllm-features"
HOST, PORT = ["--host", "0.0.0.0"], ["--port", "8000"]
PROBES = {"startupProbe", "readinessProbe", "livenessProbe"}


def server(line="", *, annotations=None, args=None, jobs=(), **container):
    """A JobSet with one server container."""
    own = {"command": line.split()} if line else {}
    own |= {"args": args} if args is not None else {}
    training = replicated_job("server", {"name": "server", **own, **container})
    return jobset(*jobs, training, framework="vllm", annotations=annotations)


def enforced(line="", **more):
    return enforce("vllm", server(line, **more))


SERVES = {
    "vllm serve": ("vllm serve m", [*HOST, *PORT]),
    "vllm of a folder": ("/opt/bin/vllm serve m", [*HOST, *PORT]),
    "the module": ("python -m vllm.entrypoints.openai.api_server --model m", [*HOST, *PORT]),
    "a host": ("vllm serve m --host 10.0.0.1", PORT),
    "a port": ("vllm serve m --port=9000", HOST),
    "both": ("vllm serve m --host=h --port 9000", []),
    "a socket": ("vllm serve m --uds /tmp/s", []),
    "a file that may hold them": ("vllm serve --config f.yaml", []),
}


@pytest.mark.parametrize(("line", "added"), SERVES.values(), ids=SERVES)
def test_flags_are_only_added_where_they_are_missing(line, added):
    out = enforced(line)
    assert (out.container["command"], out.container.get("args", [])) == (line.split(), added)
    assert all(change.op == "add" for change in out.changes)


def test_flags_go_before_the_end_of_flags():
    out = enforced("vllm serve", args=["m", "--"])
    assert (out.container["command"], out.container["args"]) == (["vllm", "serve"], ["m", *HOST, *PORT, "--"])


def test_no_flag_is_added_behind_the_end_of_flags_in_the_command():
    out = enforced("vllm serve m --")
    assert (out.container["command"], out.container.get("args")) == (["vllm", "serve", "m", "--"], None)
    assert [each.rule for each in out.changes.findings] == ["vllm/closed-flags"]


def test_flags_follow_the_words_that_are_there():
    out = enforced("vllm serve", args=["m"])
    assert (out.container["command"], out.container["args"]) == (["vllm", "serve"], ["m", *HOST, *PORT])
    assert all(change.op == "add" for change in out.changes)


ABSENT = {
    "flags for the image's entrypoint": (["--model=m"], ["vllm", "serve"], ["--model=m"]),
    "a model for the image's entrypoint": (["m"], ["vllm", "serve"], ["m"]),
    "a subcommand": (["serve", "m"], ["vllm"], ["serve", "m"]),
    "a whole launch": (["vllm", "serve", "m"], None, ["vllm", "serve", "m"]),
    "the whole module": (
        ["python", "-m", "vllm.entrypoints.openai.api_server", "--model=m"],
        None,
        ["python", "-m", "vllm.entrypoints.openai.api_server", "--model=m"],
    ),
}


@pytest.mark.parametrize(("args", "command", "kept"), ABSENT.values(), ids=ABSENT)
def test_an_absent_command_is_written_out(args, command, kept):
    out = enforced(args=args)
    assert out.container.get("command") == command
    assert out.container["args"] == [*kept, *HOST, *PORT]
    assert found("vllm", out.document) == []


def test_without_a_command_and_args_the_launch_is_written_out():
    out = enforced()
    assert (out.container["command"], out.container["args"]) == (["vllm", "serve"], [*HOST, *PORT])


def test_another_program_is_left_alone_with_a_word():
    out = enforced("bash -c vllm")
    assert (len(out.changes), out.rules) == (0, ["vllm/not-enforced"])
    assert [finding.value for finding in out.changes.findings] == ["bash -c"]
    assert enforced("vllm bench serve").rules == ["vllm/not-enforced"]
    assert enforced("python -m my.server --model m").rules == ["vllm/not-enforced"]


# --- sizes ----------------------------------------------------------------------------------------------------------

SIZES = {
    "one GPU": ("vllm serve m", 1, None),
    "four GPUs": ("vllm serve m", 4, "4"),
    "four GPUs in two pipelines": ("vllm serve m --pipeline-parallel-size 2", 4, "2"),
    "four GPUs in two replicas": ("vllm serve m -dp 2", 4, "2"),
    "four GPUs in four replicas": ("vllm serve m --data_parallel_size=4", 4, None),
    "a size that is written": ("vllm serve m --tensor-parallel-size=2", 4, None),
    "a short size": ("vllm serve m -tp 4", 4, None),
    "a size that only the pod knows": ("vllm serve m -pp $(PP)", 4, None),
    "three GPUs, by which hardly any model divides": ("vllm serve m", 3, None),
    "GPUs that two pipelines cannot share": ("vllm serve m -pp 2", 5, None),
    "an engine over several pods": ("vllm serve m --data-parallel-size-local 2", 4, None),
    "an engine on Ray": ("vllm serve m --distributed-executor-backend ray", 4, None),
    "a file that may hold it": ("vllm serve --config f.yaml", 4, None),
}


@pytest.mark.parametrize(("line", "count", "size"), SIZES.values(), ids=SIZES)
def test_the_tensor_parallel_size_is_all_gpus(line, count, size):
    argv = enforced(line, resources=gpus(count)).argv
    added = argv[len(line.split()) :]
    assert (added[added.index("--tensor-parallel-size") + 1] if "--tensor-parallel-size" in added else None) == size


def test_claimed_devices_are_gpus_and_slices_of_one_are_not():
    claim = {"claims": [{"name": "gpu"}]}
    document = server("vllm serve m", resources=claim)
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "two"}]
    assert enforce("vllm", document, claims={"two": 2}).argv[-2:] == ["--tensor-parallel-size", "2"]
    assert "--tensor-parallel-size" not in enforce("vllm", document).argv
    assert enforced("vllm serve m", resources={"limits": {"nvidia.com/mig-1g.10gb": 2}}).argv[-2:] == PORT


JUDGED = {
    "all GPUs": ("vllm serve m", 4, []),
    "more than there are": ("vllm serve m -tp 8", 4, [(Severity.ERROR, "vllm/parallel-size", 8)]),
    "more, multiplied": ("vllm serve m -tp 2 -pp 2 -dp 2", 4, [(Severity.ERROR, "vllm/parallel-size", 8)]),
    "fewer than there are": ("vllm serve m -tp 2", 4, [(Severity.WARNING, "vllm/parallel-size", 2)]),
    "one of three": ("vllm serve m", 3, [(Severity.WARNING, "vllm/parallel-size", 1)]),
    "more, over several pods": ("vllm serve m -dp 16 --data-parallel-size-local 4 --data-parallel-address a", 4, []),
    "a size that only the pod knows": ("vllm serve m -tp $(TP)", 4, []),
    "sizes in a file": ("vllm serve --config f.yaml -tp 8", 4, []),
    "no GPU at all": ("vllm serve m -tp 2", 0, []),
    "no model": ("vllm serve", 1, [(Severity.WARNING, "vllm/model", None)]),
    "a model in a flag": ("vllm serve --model m", 1, []),
    "a model behind flags": ("vllm serve --port 8000 m", 1, []),
    "a model behind a flag with its value attached": ("vllm serve --port=8000 m", 1, []),
    "a model behind a switch": ("vllm serve --enforce-eager m", 1, []),
}


@pytest.mark.parametrize(("line", "count", "wanted"), JUDGED.values(), ids=JUDGED)
def test_sizes_and_model_are_judged(line, count, wanted):
    document = enforced(line, resources=gpus(count)).document
    findings = found("vllm", document)
    assert [(each.severity, each.rule, each.value) for each in findings] == wanted
    assert all(each.field.endswith("containers[server].args") for each in findings)


# --- probes ---------------------------------------------------------------------------------------------------------

PROBED = {
    "the usual port": ("vllm serve m", 8000),
    "a port of its own": ("vllm serve m --port=9000", 9000),
    "a port of an env": ("vllm serve m --port $(P)", 7000),
    "a port that nobody knows": ("vllm serve m --port $(Q)", None),
    "a server for its own pod only": ("vllm serve m --host 127.0.0.1", None),
    "a socket": ("vllm serve m --uds /tmp/s", None),
    "a file that may hold the port": ("vllm serve --config f.yaml", None),
    "a worker without an API": ("vllm serve m --headless", None),
}


@pytest.mark.parametrize(("line", "port"), PROBED.values(), ids=PROBED)
def test_health_is_asked_for_on(line, port):
    out = enforced(line, env=[{"name": "P", "value": "7000"}])
    probes = {name: out.container[name]["httpGet"] for name in PROBES & out.container.keys()}
    assert probes == {name: {"path": "/health", "port": port} for name in PROBES if port is not None}


@pytest.mark.parametrize("flag", ["--ssl-certfile c", "--ssl-keyfile=k"])
def test_a_server_with_a_certificate_is_asked_over_https(flag):
    out = enforced(f"vllm serve m {flag}")
    assert out.container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"


def test_a_probe_that_is_there_stays_and_loading_gets_time_before_the_others_count():
    own = {"tcpSocket": {"port": 1}}
    out = enforced("vllm serve m", readinessProbe=own)
    assert out.container["readinessProbe"] == own
    assert _patience(out.container["startupProbe"]) == 1800


def test_a_server_that_does_not_answer_loses_its_clients_long_before_it_is_started_again():
    out = enforced("vllm serve m")
    assert {name: _patience(out.container[name]) for name in PROBES} == {
        "startupProbe": 1800,
        "readinessProbe": 15,
        "livenessProbe": 60,
    }
    assert all(out.container[name]["timeoutSeconds"] == 5 <= out.container[name]["periodSeconds"] for name in PROBES)


def _patience(probe):
    """Seconds without an answer after which the kubelet acts."""
    return probe["periodSeconds"] * probe["failureThreshold"]


# --- features -------------------------------------------------------------------------------------------------------


def test_features_bring_a_flag_and_an_env_each():
    out = enforced("vllm serve m", annotations={FEATURES: " sleep, lora,"}, resources=gpus(1))
    assert out.argv[-2:] == ["--enable-sleep-mode", "--enable-lora"]
    assert out.env == {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    assert found("vllm", out.document) == []
    assert enforced("vllm serve m").env == {}


def test_what_is_written_of_a_feature_stays():
    written = "vllm serve m --enable_sleep_mode --no-enable-lora"
    env = [{"name": "VLLM_SERVER_DEV_MODE", "value": "0"}]
    out = enforced(written, annotations={FEATURES: "sleep,lora"}, env=env)
    assert out.argv == [*written.split(), *HOST, *PORT]
    assert out.env["VLLM_SERVER_DEV_MODE"] == "0"
    (finding,) = out.changes.findings
    assert (finding.rule, finding.value) == ("vllm/features", "0")
    assert finding.field.endswith("env[VLLM_SERVER_DEV_MODE]")


def test_an_unknown_feature_is_refused_and_so_is_sleep_without_a_gpu():
    document = server("vllm serve m", annotations={FEATURES: "sleep,dream"})
    findings = [each for each in found("vllm", document) if each.severity is Severity.ERROR]
    assert {each.field for each in findings} == {f"metadata.annotations[{FEATURES}]"}
    assert findings[0].value == "dream"
    assert "sleep needs a GPU" in findings[1].message
    assert len(findings) == 2


def test_findings_about_many_unknown_features_do_not_each_repeat_the_annotation():
    words = [f"unknown{number}" for number in range(100)]
    document = server("vllm serve m", annotations={FEATURES: ",".join(words)})
    told = [each.value for each in found("vllm", document) if each.rule == "vllm/features"]
    assert sorted(told) == sorted(words)


# --- where it runs --------------------------------------------------------------------------------------------------


def test_the_model_of_an_initializer_is_served():
    out = enforced("vllm serve", jobs=[initializer("model-initializer")])
    assert out.document["spec"]["replicatedJobs"][0] == initializer("model-initializer")
    container = out.document["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert "command" in container


def test_a_trainjob_is_completed_and_its_jobset_probed():
    governing = runtime("vllm", policy={}, initializers=("model-initializer",), resources=gpus(2))
    first = enforce("vllm", trainjob({"command": ["vllm", "serve"]}, annotations={FEATURES: "sleep"}), governing)
    assert first.argv == [
        *("vllm", "serve", "--model", "/workspace/model"),
        *HOST,
        *PORT,
        *("--tensor-parallel-size", "2", "--enable-sleep-mode"),
    ]
    second = enforce("vllm", jobset_of(first.document, governing), governing, owner=first.document)
    assert second.argv == first.argv
    assert second.container.keys() >= PROBES
    assert second.added == {"VLLM_SERVER_DEV_MODE": "1"}
    assert found("vllm", first.document, governing) == []
    assert found("vllm", second.document, governing, owner=first.document) == []


AGAIN = ["vllm serve m", "vllm serve m --port $(P) -tp 2", "vllm serve --config f.yaml", "bash -c x"]


@pytest.mark.parametrize("line", AGAIN)
def test_a_second_pass_changes_nothing(line):
    out = enforced(line, annotations={FEATURES: "sleep,lora"}, resources=gpus(2))
    assert len(enforce("vllm", out.document).changes) == 0


def test_servers_meet_nowhere():
    document = server("vllm serve m")
    document["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] = 2
    assert enforce("vllm", document).env == {}
