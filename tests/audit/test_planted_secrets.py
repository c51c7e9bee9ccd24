"""Plants a secret in each place that a manifest has and looks for it in every output but the patch."""

from __future__ import annotations

import base64
import copy
import datetime
import io
import itertools
import json
import logging

import orjson
import pytest

from e2e.suites.support import thorough
from muster.audit import known
from muster.webhook import logs
from muster.webhook.admission import accounts, answers
from muster.webhook.admission.policies import Mode, Policy
from tests.support import acmes, admissions, jobs, outlets

WORD = "Zq7xPlanted8Secret"  # a secret that only its name, its flag or its place tells
HF = "hf_" + "Zq7xPlanted8Secret" * 2
GITHUB = "ghp_" + "Zq7xPlanted8Secret" * 2
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJacTd4UGxhbnRlZDhTZWNyZXQi.Zq7xPlanted8Secret"
AWS = "AKIA" + "Z7Q8" * 4
PEM = "-----BEGIN PRIVATE KEY-----\nZq7xPlanted8Secret\n-----END PRIVATE KEY-----"
PARTS = (WORD, HF[:12], GITHUB[:12], JWT[:16], AWS, "acTd4UGxhbnRlZDhTZWNyZXQ", "WnE3eFBsYW50ZWQ4U2VjcmV0")
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ENCODED = base64.b64encode(f'{{"auth":"{WORD}"}}'.encode()).decode()

ARGS = {
    "abbreviated flag": ["--hub_tok", WORD],
    "abbreviated flag, =": [f"--hub_tok={WORD}"],
    "api key flag": ["--api-key", WORD],
    "header, short": ["curl", "-H", f"X-Api-Key: {WORD}"],
    "wandb login": ["wandb", "login", WORD],
    "clone with user": ["git", "clone", f"https://oauth2:{WORD}@host.example/x"],
    "json": ["--config", f'{{"hub_token": "{WORD}"}}'],
    "json in json in json": ["--config", json.dumps([json.dumps([json.dumps({"api_key": WORD})])])],
    "positional of a login": ["login", "--password", WORD, "again", WORD],
    "url beside a flag": [f"--dataset_name=https://bob:{WORD}@host.example/{'x' * 90}", "--dataset_name", "b"],
    "token alone": [HF],
    "AWS": ["--id", AWS],
    "PEM": ["--cert", PEM],
    "number of nodes": ["--nnodes", HF],
    "port": ["--master_port", HF],
    "encoded": ["--payload", ENCODED],
    "url query": [f"https://host.example/x?access_token={WORD}&a=1"],
    "connection string": [f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={WORD};EndpointSuffix=x"],
    "jq": ["jq", "-n", "--arg", "token", WORD],
    "kubeconfig on lines": [
        base64.encodebytes(f"users:\n- user:\n    {'x' * 90}: 1\n    token: {WORD}\n".encode()).decode()
    ],
}
SHELL = {
    "export": f"export HF_TOKEN={WORD}; accelerate launch train.py",
    "here-doc": f"cat > x <<EOF\ntoken: {WORD}\nEOF\ntorchrun --nnodes 7 train.py",
    "default": f"export HF_TOKEN=${{HF_TOKEN:-{WORD}}}; torchrun --nnodes 7 t.py",
    "python": f"python -c \"import os; os.environ['HF_TOKEN'] = '{WORD}'\"; torchrun --nnodes 7 t.py",
    "kubeconfig": f"cat > k <<EOF\nusers:\n- name: a\n  user:\n    token: {WORD}\nEOF\ntorchrun --nnodes 7 t.py",
    "broken quotes": f"torchrun --nnodes 7 t.py --hub_token '{WORD}",
    "in a substitution": f"torchrun $(login {WORD}) t.py",
    "second line": f"torchrun --nnodes 7 t.py \\\n  --hub_token {WORD} \\\n  --lr 1",
}
ENV = {
    "HF_TOKEN": WORD,
    "DB_PASSWORD": WORD,
    "INNOCENT": HF,
    "PET_NNODES": HF,
    "PET_MASTER_PORT": GITHUB,
    "WORLD_SIZE": JWT,
    "DATABASE_URL": f"postgres://bob:{WORD}@host.example/x",
    "CONFIG": f"a: 1\npassword: {WORD}\n",
    "DOCKER_CONFIG_JSON": json.dumps({"auths": {"x": {"auth": WORD}}}),
    "NCCL_DEBUG": HF,
    "ACCELERATE_CONFIG": f"hub_token: |\n  {WORD}\n",
    f"HF_TOKEN={WORD}": "x",
    HF: "x",
    "PET_NPROC_PER_NODE": f"--token {WORD}",
    "KAGGLE_KEY": WORD,
    "HUGGING_FACE_KEY": WORD,
    "GROQ_KEY": WORD,
    "AZURE_STORAGE_CONNECTION_STRING": f"AccountName=a;AccountKey={WORD}",
    "KUBECONFIG_DATA": base64.b64encode(f"users:\n- user:\n    token: {WORD}\n".encode()).decode(),
}


def trainjob(**trainer):
    return jobs.make_trainjob(**trainer)


def jobset(**container):
    return jobs.make_jobset(container=container, nodes=2)


def with_metadata(**metadata):
    document = trainjob(args=["--num_machines", "9"])
    document["metadata"] |= metadata
    return document


def with_member(path, value):
    document = trainjob(args=["--num_machines", "9"])
    node = document
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = value
    return document


def with_volume(**volume):
    document = jobset()
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "v", **volume}]
    return document


def with_a_secret(**name):
    """A JobSet that has a secret in its env, and again where a name is due."""
    document = jobset(env=[{"name": "HF_TOKEN", "value": WORD}])
    document["metadata"] |= name.get("metadata", {})
    document["spec"] |= name.get("spec", {})
    document["spec"]["replicatedJobs"][0] |= name.get("job", {})
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod |= name.get("pod", {})
    pod["containers"][0] |= name.get("container", {})
    return document


NAMED = {
    "name": with_a_secret(metadata={"name": WORD}),
    "generateName": with_a_secret(metadata={"name": "", "generateName": f"{WORD}-"}),
    "replicated job": with_a_secret(job={"name": WORD}),
    "part of a replicated job": with_a_secret(job={"name": f"x-{WORD}-y"}),
    "subdomain": with_a_secret(spec={"network": {"subdomain": WORD}}),
    "hostname": with_a_secret(pod={"hostname": WORD, "subdomain": WORD}),
    "container": with_a_secret(container={"name": WORD}),
    "coordinator": with_a_secret(spec={"coordinator": {"replicatedJob": WORD}}),
    "node selector": with_a_secret(pod={"nodeSelector": {WORD: WORD}}),
}
PLACES = {
    **{f"args: {name}": trainjob(command=["trl", "sft"], args=args) for name, args in ARGS.items()},
    **{f"command: {name}": trainjob(command=["accelerate", "launch", *args]) for name, args in ARGS.items()},
    **{f"shell: {name}": trainjob(command=["bash", "-c", text]) for name, text in SHELL.items()},
    **{f"shell in args: {name}": trainjob(command=["sh"], args=["-c", text]) for name, text in SHELL.items()},
    **{f"env: {name[:20]}": trainjob(env=[{"name": name, "value": value}]) for name, value in ENV.items()},
    "env: number": trainjob(env=[{"name": "PET_NNODES", "value": {"token": WORD}}]),
    "env twice": trainjob(env=[{"name": "HF_TOKEN", "value": WORD}, {"name": "PET_NNODES", "value": WORD}]),
    "numNodes": trainjob(numNodes=HF),
    "numProcPerNode": trainjob(numProcPerNode=HF),
    "image": trainjob(image=f"bob:{WORD}@host.example/x:1"),
    "resources": trainjob(resourcesPerNode={"limits": {"nvidia.com/gpu": HF}}),
    "resource name": trainjob(resourcesPerNode={"limits": {HF: "1"}}),
    "command is a text": trainjob(command=f"trl sft --hub_token {WORD}"),
    "args are a map": trainjob(args={"hub_token": WORD}),
    "name": with_metadata(name=HF),
    "generateName": with_metadata(name="", generateName=HF),
    "name with a query": with_metadata(name=f"x?token={WORD}&b=1"),
    "name with a flag": with_metadata(name=f"--hub_tok {WORD}"),
    "name of a Secret's data": with_metadata(name=json.dumps({"kind": "Secret", "data": {"x": WORD}})),
    "generateName with an assignment": with_metadata(name="", generateName=f"password={WORD}"),
    "name that is a token in three parts": with_metadata(name=JWT),
    "label": with_metadata(labels={"muster.dev/framework": HF}),
    "label name": with_metadata(labels={HF: "x"}),
    "annotation": with_metadata(annotations={"example.com/token": WORD}),
    "muster annotation": with_metadata(annotations={"muster.dev/mode": HF}),
    "muster annotation of an unknown name": with_metadata(annotations={"muster.dev/token": WORD}),
    "memory": with_metadata(annotations={"muster.dev/applied": json.dumps({"fields": {"hub_token": WORD}})}),
    "broken memory": with_metadata(annotations={"muster.dev/applied": f'{{"token": "{WORD}'}),
    "last applied": with_metadata(
        annotations={"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": {"HF_TOKEN": WORD}})}
    ),
    "runtime with a password": with_member(["spec", "runtimeRef", "name"], f"password={WORD}"),
    "runtime": with_member(["spec", "runtimeRef", "name"], HF),
    "override": with_member(
        ["spec", "podTemplateOverrides"], [{"spec": {"env": [{"name": "A_TOKEN", "value": WORD}]}}]
    ),
    "managedBy": with_member(["spec", "managedBy"], HF),
    "initializer": with_member(
        ["spec", "initializer"],
        {"model": {"env": [{"name": "HF_TOKEN", "value": WORD}], "storageUri": f"hf://x:{WORD}@y"}},
    ),
    "initializer of a long source": with_member(
        ["spec", "initializer"], {"dataset": {"storageUri": f"ftp://{'u' * 236}:{WORD}@host.example/x"}}
    ),
    "unknown": with_member(["spec", "token"], WORD),
    **{f"jobset args: {name}": jobset(command=["vllm", "serve"], args=args) for name, args in ARGS.items()},
    **{f"jobset shell: {name}": jobset(command=["sh", "-c", text]) for name, text in SHELL.items()},
    **{f"jobset env: {name[:20]}": jobset(env=[{"name": name, "value": value}]) for name, value in ENV.items()},
    "jobset port": jobset(ports=[{"name": HF, "containerPort": HF}]),
    "jobset resources": jobset(resources={"limits": {"nvidia.com/gpu": HF}}),
    "jobset container": jobset(name=HF),
    "jobset volume": jobset(volumeMounts=[{"name": HF, "mountPath": f"/x?token={WORD}"}]),
    "jobset probe": jobset(readinessProbe={"httpGet": {"httpHeaders": [{"name": "Authorization", "value": WORD}]}}),
    "jobset args of a program in the command": jobset(command=["mysql", "--host=db"], args=[f"-p{WORD}"]),
    "jobset args behind a flag of the command": jobset(command=["trl", "sft", "--hub_token"], args=[WORD]),
    "jobset user of curl in args": jobset(command=["curl"], args=["-u", f"bob:{WORD}"]),
    "args behind a flag of the command": trainjob(command=["trl", "sft", "--hub_token"], args=[WORD]),
    "jobset lifecycle": jobset(lifecycle={"postStart": {"exec": {"command": ["sh", "-c", f"login --token {WORD}"]}}}),
    "jobset csi": with_volume(csi={"driver": "x", "volumeAttributes": {"clientSecret": WORD}}),
    "jobset flexVolume": with_volume(flexVolume={"driver": "x", "options": {"password": WORD}}),
    "jobset iscsi": with_volume(iscsi={"iqn": HF, "chapAuthSession": WORD}),
    "jobset two sources": with_volume(emptyDir={"medium": HF}, **{HF: {"a": WORD}}),
    "jobset host path": with_volume(hostPath={"type": HF, "path": f"//bob:{WORD}@x"}),
    "jobset claims": jobs.make_jobset(metadata={"annotations": {"muster.dev/claims": HF}}),
    "jobset replicas": jobs.make_jobset(nodes=HF),
    **{f"jobset {name} that is a secret of the env": document for name, document in NAMED.items()},
}
MODES = [Mode.ENFORCE, Mode.WARN, Mode.AUDIT]
_named = "{0[0]} in {0[1].value}".format
_ONE_MODE_EACH = list(zip(PLACES, itertools.cycle(MODES), strict=False))


def test_there_are_enough_of_them():
    assert len(PLACES) >= 150


@pytest.mark.parametrize("planted", thorough.but(*_ONE_MODE_EACH, of=itertools.product(PLACES, MODES), called=_named))
def test_no_planted_secret_is_in_a_record_or_in_what_is_made_of_it(planted):
    place, mode = planted
    for phase in ("mutate", "validate"):
        document, reader = copy.deepcopy(PLACES[place]), admissions.shipped_reader()
        decision = admissions.decide(document, phase=phase, policy=Policy(mode=mode), reader=reader)
        for output, text in outlets.shared(decision):
            assert not [part for part in PARTS if part.lower() in text.lower()], (phase, output, text)


FORMS = [name for name in PLACES if any(word in name for word in ("token alone", "number of nodes", "port", "AWS"))]


@pytest.mark.parametrize("place", FORMS)
def test_an_answer_quotes_no_token_of_a_known_form(place):
    for phase in ("mutate", "validate"):
        decision = admissions.decide(PLACES[place], phase=phase, reader=admissions.shipped_reader())
        response = {key: value for key, value in answers.answer(decision).items() if key != "patch"}
        text = orjson.dumps(response).decode()
        assert not [part for part in (HF, GITHUB, JWT, AWS) if part in text], text


class Silent(Exception):  # noqa: N818  # it stands for one of a plugin
    """An exception that cannot be told."""

    def __str__(self):
        raise ValueError(WORD)


RAISED = {"flag": ValueError(f"--hub_token {WORD}"), "form": ValueError(HF), "key": KeyError(HF), "silent": Silent()}


def assert_clean(text):
    assert not [part for part in PARTS if part.lower() in text.lower()], text


@pytest.mark.parametrize("raised", [*RAISED, "word"])
@pytest.mark.parametrize("stage", ["enforce_command", "validate"])
def test_what_a_plugin_raises_is_recorded_without_its_words(raised, stage):
    error = RAISED.get(raised, ValueError(f"could not convert {WORD}"))
    plugin = acmes.acme(**{stage: acmes.raising(error)})
    decision = acmes.decide(plugin, acmes.phase_of(stage))
    assert_clean(orjson.dumps(known.record(accounts.record(decision, MOMENT, 0.001))).decode())


@pytest.mark.parametrize("raised", [*RAISED, "word"])
def test_a_log_line_has_no_secret_in_message_fact_or_traceback(raised):
    stream = io.StringIO()
    logger = logging.Logger("muster.planted")  # noqa: LOG001  # one of its own, that no other test sees
    logger.addHandler(logging.StreamHandler(stream))
    logger.handlers[0].setFormatter(logs.JsonFormatter())
    error = RAISED.get(raised, ValueError(f"could not convert {WORD}"))
    more = {"error": RAISED.get(raised, ValueError(HF)), "map": {"token": WORD}, "list": [HF], "n": 10**5000}
    logger.error("it failed: %s", HF, extra=more, exc_info=error)
    assert orjson.loads(stream.getvalue())["logger"] == "muster.planted"
    assert_clean(stream.getvalue())


def test_a_message_of_a_library_is_its_first_line():
    line = logs.JsonFormatter().format(logging.makeLogRecord({"name": "asyncio", "msg": f"it failed\n{WORD}"}))
    assert orjson.loads(line)["message"] == "it failed"
