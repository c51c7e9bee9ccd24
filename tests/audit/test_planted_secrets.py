"""Plants a secret in each place that a manifest has and looks for it in every output but the patch."""

from __future__ import annotations

import base64
import copy
import datetime
import io
import itertools
import json
import logging
import pathlib
import tempfile
import types

import orjson
import pytest

from e2e.suites.support import thorough
from muster.webhook import logs, metrics
from muster.webhook.admission import accounts, answers
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.audit.log import chain
from muster.webhook.audit.reading import queries
from muster.webhook.audit.redaction import redaction
from muster.webhook.notices import denials
from muster.webhook.notices.reports import outcomes
from muster.webhook.pages import asked, details, lists, scans, seals, shelves, tallies
from muster.webhook.server import handlers
from tests.support import acmes, admissions, jobs

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
    "more abbreviated": ["--hub_t", WORD],
    "dashes": ["--hub-token", WORD],
    "api key flag": ["--api-key", WORD],
    "api key abbreviated": ["--api-k", WORD],
    "password flag": ["--password", WORD],
    "in a report": ["--report_to", "wandb", "--wandb_api_key", WORD],
    "-e": ["run", "-e", f"HF_TOKEN={WORD}"],
    "header": ["curl", "--header", f"Authorization: Bearer {WORD}"],
    "header, short": ["curl", "-H", f"X-Api-Key: {WORD}"],
    "header, glued": ["curl", f"-HAuthorization: Basic {WORD}"],
    "curl -u": ["curl", "-u", f"bob:{WORD}"],
    "mysql -p": ["mysql", f"-p{WORD}"],
    "sshpass -p": ["sshpass", "-p", WORD, "ssh", "x"],
    "docker login": ["docker", "login", "-u", "bob", "-p", WORD],
    "wandb login": ["wandb", "login", WORD],
    "redis": ["redis-cli", "-a", WORD],
    "clone": ["git", "clone", f"https://{WORD}@host.example/x"],
    "clone with user": ["git", "clone", f"https://oauth2:{WORD}@host.example/x"],
    "database": [f"--db=postgres://bob:{WORD}@host.example/x"],
    "json": ["--config", f'{{"hub_token": "{WORD}"}}'],
    "json, =": [f'--config={{"token":"{WORD}","lr":1}}'],
    "json in json in json": ["--config", json.dumps([json.dumps([json.dumps({"api_key": WORD})])])],
    "Secret in json": ["--config", json.dumps({"kind": "Secret", "data": {"x": WORD}})],
    "positional of a login": ["login", "--password", WORD, "again", WORD],
    "url beside a flag": [f"--dataset_name=https://bob:{WORD}@host.example/{'x' * 90}", "--dataset_name", "b"],
    "long words before": ["--a=" + "y" * 80 + " " + HF],
    "json in json": ["--config", json.dumps({"inner": json.dumps({"api_key": WORD})})],
    "token alone": [HF],
    "token of GitHub": ["--source", GITHUB],
    "JWT": ["--id", JWT],
    "AWS": ["--id", AWS],
    "PEM": ["--cert", PEM],
    "number of nodes": ["--nnodes", HF],
    "port": ["--master_port", HF],
    "encoded": ["--payload", ENCODED],
    "url query": [f"https://host.example/x?access_token={WORD}&a=1"],
    "signed url": [f"https://host.example/x?X-Amz-Signature={WORD}"],
    "account key": ["az", "storage", "blob", "list", "--account-key", WORD],
    "connection string": [f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={WORD};EndpointSuffix=x"],
    "connection string of ODBC": [f"--dsn=DRIVER=x;SERVER=db;UID=bob;PWD={WORD};Encrypt=yes"],
    "connection string of ADO": ["--dsn", f"Server=db; User Id=bob; Pwd={WORD}"],
    "curl --oauth2-bearer": ["curl", "--oauth2-bearer", WORD, "https://x.example"],
    "htpasswd": ["htpasswd", "-b", "file", "bob", WORD],
    "htpasswd without a file": ["htpasswd", "-nbB", "bob", WORD],
    "gpg": ["gpg", "--batch", "--passphrase", WORD, "-d", "x"],
    "vault kv put": ["vault", "kv", "put", "secret/mysql", f"key={WORD}"],
    "vault write": ["vault", "write", "auth/userpass/users/bob", f"x={WORD}"],
    "mc alias": ["mc", "alias", "set", "a", "https://x.example", "AK", WORD],
    "mc config": ["mc", "config", "host", "add", "a", "https://x.example", "AK", WORD],
    "mc admin": ["mc", "admin", "user", "add", "a", "AK", WORD],
    "kubectl create secret": ["kubectl", "create", "secret", "generic", "a", f"--from-literal=k={WORD}"],
    "kubectl, apart": ["kubectl", "create", "secret", "generic", "a", "--from-literal", f"k={WORD}"],
    "aws configure": ["aws", "configure", "set", "aws_secret_access_key", WORD],
    "aws ssm": ["aws", "ssm", "put-parameter", "--name", "x", "--value", WORD],
    "az keyvault": ["az", "keyvault", "secret", "set", "--vault-name", "v", "--name", "n", "--value", WORD],
    "gh secret": ["gh", "secret", "set", "NAME", "-b", WORD],
    "hf auth login": ["hf", "auth", "login", "--token", WORD],
    "cargo login": ["cargo", "login", WORD],
    "consul": ["consul", "kv", "put", "a", WORD],
    "etcdctl": ["etcdctl", "put", "a", WORD],
    "rabbitmqctl": ["rabbitmqctl", "add_user", "bob", WORD],
    "ngrok": ["ngrok", "config", "add-authtoken", WORD],
    "rclone": ["rclone", "config", "create", "r", "s3", "secret_access_key", WORD],
    "dvc": ["dvc", "remote", "modify", "--local", "r", "password", WORD],
    "pulumi": ["pulumi", "config", "set", "--secret", "x", WORD],
    "kaggle": ["kaggle", "config", "set", "-n", "key", "-v", WORD],
    "keytool": ["keytool", "-list", "-storepass", WORD],
    "openssl passwd": ["openssl", "passwd", "-6", WORD],
    "openssl -passin": ["openssl", "rsa", "-passin", f"pass:{WORD}"],
    "ldapsearch": ["ldapsearch", "-x", "-w", WORD],
    "lftp": ["lftp", "-u", f"bob,{WORD}", "x.example"],
    "jq": ["jq", "-n", "--arg", "token", WORD],
    "docker login, glued": ["docker", "login", f"-p{WORD}"],
    "programs in programs": ["sshpass", "-p", WORD, "docker", "login", "-p", WORD],
    "headers of httpie": ["http", "x.example", f"Authorization:Bearer {WORD}"],
    "kubeconfig": ["--kubeconfig64", base64.b64encode(f"users:\n- user:\n    token: {WORD}\n".encode()).decode()],
    "kubeconfig on lines": [
        base64.encodebytes(f"users:\n- user:\n    {'x' * 90}: 1\n    token: {WORD}\n".encode()).decode()
    ],
    "json behind white space": ["--config", "\n " + json.dumps({"kind": "Secret", "data": {"x": WORD}})],
}
SHELL = {
    "export": f"export HF_TOKEN={WORD}; accelerate launch train.py",
    "prefix": f"WANDB_API_KEY={WORD} accelerate launch train.py --num_processes 3",
    "quoted": f"export HF_TOKEN='{WORD}' && torchrun --nnodes 7 train.py",
    "here-doc": f"cat > x <<EOF\ntoken: {WORD}\nEOF\ntorchrun --nnodes 7 train.py",
    "netrc": f"echo machine x login bob password {WORD} > ~/.netrc; torchrun --nnodes 7 t.py",
    "git config": f"git config --global http.extraheader 'Authorization: Bearer {WORD}'; torchrun --nnodes 7 t.py",
    "default": f"export HF_TOKEN=${{HF_TOKEN:-{WORD}}}; torchrun --nnodes 7 t.py",
    "curl": f"curl -u bob:{WORD} https://x.example; torchrun --nnodes 7 t.py",
    "curl header": f'curl -H "Authorization: Bearer {WORD}" https://x.example; torchrun --nnodes 7 t.py',
    "pip": f"pip install git+https://bob:{WORD}@host.example/x; torchrun --nnodes 7 t.py",
    "python": f"python -c \"import os; os.environ['HF_TOKEN'] = '{WORD}'\"; torchrun --nnodes 7 t.py",
    "login": f"huggingface-cli login --token {WORD}; torchrun --nnodes 7 --hub_tok {WORD} t.py",
    "kubeconfig": f"cat > k <<EOF\nusers:\n- name: a\n  user:\n    token: {WORD}\nEOF\ntorchrun --nnodes 7 t.py",
    "broken quotes": f"torchrun --nnodes 7 t.py --hub_token '{WORD}",
    "positional": f"login {WORD}; torchrun --nnodes 7 t.py",
    "set": f"set -- {WORD}; login $1; torchrun --nnodes 7 t.py",
    "in a substitution": f"torchrun $(login {WORD}) t.py",
    "default of an unknown word": f"torchrun ${{ARGS:-{WORD}}} t.py",
    "psql": f"PGPASSWORD={WORD} psql -h db; torchrun --nnodes 7 t.py",
    "htpasswd": f"htpasswd -b -c f bob {WORD}; torchrun --nnodes 7 t.py",
    "vault": f"vault kv put secret/x a=1 key={WORD}; torchrun --nnodes 7 t.py",
    "mc": f"mc alias set a https://x.example AK {WORD}; torchrun --nnodes 7 t.py",
    "kubectl": f"kubectl create secret generic a --from-literal=k={WORD}; torchrun --nnodes 7 t.py",
    "wandb in python": f"python -c \"import wandb; wandb.login(key='{WORD}')\"; torchrun --nnodes 7 t.py",
    "login in python": f"python -c \"from huggingface_hub import login; login('{WORD}')\"; torchrun --nnodes 7 t.py",
    "requests in python": f"python -c \"requests.get(u, auth=('bob', '{WORD}'))\"; torchrun --nnodes 7 t.py",
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


def quoting(framework, *command):
    """A JobSet that has a long secret in its env, and again where a finding quotes a part of it."""
    env = [{"name": "HF_TOKEN", "value": WORD * 6}]
    return jobs.make_jobset(framework=framework, container={"command": list(command), "env": env}, nodes=2)


def with_volume(**volume):
    document = jobset()
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "v", **volume}]
    return document


CUT = {
    "vllm number": quoting("vllm", "vllm", "serve", "m", "--tensor-parallel-size", WORD * 6),
    "vllm choice": quoting("vllm", "vllm", "serve", "m", "--dtype", WORD * 6),
    "vllm port": quoting("vllm", "vllm", "serve", "m", "--port", WORD * 6),
    "vllm word": quoting("vllm", "vllm", "serve", "m", WORD * 6),
    "vllm flag": quoting("vllm", "vllm", "serve", "m", f"--{WORD * 6}"),
    "vllm file": quoting("vllm", "vllm", "serve", "m", "--config", WORD * 6),
    "vllm twice": quoting("vllm", "vllm", "serve", "m", "--max-model-len", "1", "--max-model-len", WORD * 6),
    "torchrun number": quoting("torch", "torchrun", f"--nnodes=${WORD * 6}", "t.py"),
    "torchrun option": quoting("torch", "torchrun", f"--{WORD * 6}", "t.py"),
    "torchrun twice": quoting("torch", "torchrun", "--nnodes=1", f"--nnodes={WORD * 6}", "t.py"),
    "accelerate number": quoting("torch", "accelerate", "launch", "--num_processes", WORD * 6, "t.py"),
    "tune config": quoting("torchtune", "tune", "run", "x", "--config", WORD * 6, "--config", "b"),
    "tune twice": quoting("torchtune", "tune", "run", "x", "--config", "b", f"{WORD * 6}=1", f"{WORD * 6}=2"),
    "tune value": quoting("torchtune", "tune", "run", "x", "--config", "b", f"a={WORD * 6}", "a=2"),
}


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
    **{f"a cut quote of {name}": document for name, document in CUT.items()},
    **{f"jobset {name} that is a secret of the env": document for name, document in NAMED.items()},
}
MODES = [Mode.ENFORCE, Mode.WARN, Mode.AUDIT]
_named = "{0[0]} in {0[1].value}".format
_ONE_MODE_EACH = list(zip(PLACES, itertools.cycle(MODES), strict=False))


def outputs(document, phase, mode):
    """Yield every text that leaves the process because of one request, and the response without its patch."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        decision = admissions.decide(
            document, phase=phase, policy=Policy(mode=mode), reader=admissions.shipped_reader()
        )
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    decision = answers.without_secrets(decision)
    response = {key: value for key, value in answers.told(decision).items() if key != "patch"}
    yield "answer", orjson.dumps(response).decode()
    record = redaction.redact(accounts.record(decision, MOMENT, 0.001))
    sealed = orjson.loads(chain.Chain().seal(record))
    yield "page", details.page(sealed, seals.Standing("", None, None), "/", []).decode()
    yield "list", lists.page(asked.Asked({}, queries.Questions()), listed(sealed), counted_of(sealed), []).decode()
    yield "metrics", counted(decision)
    yield "record", orjson.dumps(record).decode()
    yield "event", denials._message(record)  # what the Event says
    yield "report", orjson.dumps(outcomes.said(record).results).decode()
    yield "log", stream.getvalue()


def listed(sealed):
    """What was found in a log of one record."""
    found = shelves.Found(shelves.LinePlace(0, "", 0), pathlib.Path("audit.log"), orjson.dumps(sealed))
    return scans.Scan((scans.Row(found, queries.Entry("audit.log", 1, sealed)),), None, 1, sealed["time"])


def counted_of(sealed):
    """What the overview counts in a log of one record."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        log.write(orjson.dumps(sealed) + b"\n")
        log.flush()
        return tallies.tally(shelves.Shelf([pathlib.Path(log.name)]), queries.Questions())


def counted(decision):
    """The metrics of a service that has answered one review."""
    counts = metrics.Metrics()
    handlers.Admission._count(types.SimpleNamespace(_metrics=counts), decision, 0.001)
    return counts.render().decode()


def test_there_are_enough_of_them():
    assert len(PLACES) >= 60


@pytest.mark.parametrize("planted", thorough.but(*_ONE_MODE_EACH, of=itertools.product(PLACES, MODES), called=_named))
def test_no_planted_secret_leaves_but_in_the_patch(planted):
    place, mode = planted
    for phase in ("mutate", "validate"):
        for output, text in outputs(copy.deepcopy(PLACES[place]), phase, mode):
            assert not [part for part in PARTS if part.lower() in text.lower()], (phase, output, text)


RECORDED = {
    **{f"args: {name}": args for name, args in ARGS.items()},
    **{f"a shell: {name}": ["bash", "-c", text] for name, text in SHELL.items()},
    **{f"a text: {name}": text for name, text in SHELL.items()},
    **{f"env: {name[:20]}": [{"name": name, "value": value}] for name, value in ENV.items()},
}
# Nothing says of these words that they are secrets, and no finding quotes them.
_UNSAID = ("positional", "positional of a login", "set", "in a substitution", "default of an unknown word")


@pytest.mark.parametrize("place", [each for each in RECORDED if each.partition(": ")[2] not in _UNSAID])
def test_a_change_whose_value_holds_a_secret_is_recorded_without_it(make_record, make_change, place):
    record = make_record(changes=[make_change("spec.trainer.x", before=[], after=RECORDED[place])])
    assert_clean(orjson.dumps(redaction.redact(record)).decode())


class Silent(Exception):  # noqa: N818  # it stands for one of a plugin
    """An exception that cannot be told."""

    def __str__(self):
        raise ValueError(WORD)


RAISED = {"flag": ValueError(f"--hub_token {WORD}"), "form": ValueError(HF), "key": KeyError(HF), "silent": Silent()}


def assert_clean(text):
    assert not [part for part in PARTS if part.lower() in text.lower()], text


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("stage", ["enforce_command", "validate"])
def test_what_a_plugin_raises_is_told_without_secrets(raised, stage):
    plugin = acmes.acme(**{stage: acmes.raising(RAISED[raised])})
    decision = answers.without_secrets(acmes.decide(plugin, acmes.phase_of(stage)))
    assert_clean(orjson.dumps(answers.told(decision)).decode())
    assert_clean(orjson.dumps(redaction.redact(accounts.record(decision, MOMENT, 0.001))).decode())


@pytest.mark.parametrize("raised", RAISED)
def test_a_log_line_has_no_secret_in_message_fact_or_traceback(raised):
    stream = io.StringIO()
    logger = logging.Logger("planted")  # noqa: LOG001  # one of its own, that no other test sees
    logger.addHandler(logging.StreamHandler(stream))
    logger.handlers[0].setFormatter(logs.JsonFormatter())
    more = {"error": RAISED[raised], "map": {"token": WORD}, "list": [HF], "n": 10**5000}
    logger.error("it failed: %s", HF, extra=more, exc_info=RAISED[raised])
    assert orjson.loads(stream.getvalue())["logger"] == "planted"
    assert_clean(stream.getvalue())


@pytest.mark.parametrize(
    "args",
    [
        ["--max_new_tokens", "512", "--pad_token", "<pad>", "--eos_token", "</s>"],
        ["--tokenizer", "org/model", "--tokenizer_name_or_path", "org/model"],
        ["--hub_strategy", "every_save", "--push_to_hub", "--hub_model_id", "org/model"],
        ["--keyfile", "/etc/tls/server.pem", "--certfile", "/etc/tls/server.crt"],
        ["--max_num_batched_tokens", "8192", "--token_budget", "12", "--sort_key", "length"],
        ["--task", "token-classification", "--author", "somebody", "--monkey", "wrench"],
        ["torchrun", "--nnodes", "2", "--rdzv_endpoint", "host:29400", "train.py"],
        ["bash", "-c", "set -ex; pip install x && accelerate launch --num_processes 8 train.py --lr 1e-5"],
        ["docker", "run", "-p", "80:80", "name:tag@sha256:" + "ab12" * 16],
        ["--hub_token", "$(HF_TOKEN)", "--use_auth_token", "true"],
        ["--dataset", "s3://bucket/path/tokenized", "--output_dir", "/data/checkpoints-2026"],
    ],
    ids=lambda args: " ".join(args)[:40],
)
def test_words_without_a_secret_stay_readable(make_record, make_change, args):
    changes = [make_change("env[HF_TOKEN].value", after=WORD), make_change("spec.trainer.args", after=args)]
    assert redaction.redact(make_record(changes=changes))["changes"][1]["after"] == args


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "PAD_TOKEN", "NCCL_DEBUG", "MAX_TOKENS", "HF_HOME", "SORT_KEY", "PWD"]
)
def test_the_value_of_a_harmless_variable_is_shown(make_record, make_change, name):
    after = [{"name": name, "value": "a-value-to-see"}, {"name": "HF_TOKEN", "value": WORD}]
    shown = redaction.redact(make_record(changes=[make_change("env", after=after)]))["changes"][0]["after"]
    assert [each["value"] for each in shown] == ["a-value-to-see", "<redacted>"]
