"""No secret of a known shape comes out anywhere, whatever form it is written in and wherever it stands.

What others than the author of a job read (records, Events, reports, pages, metrics) has nothing that is not known to be
harmless; answers, terminals, lines of the process log and whole records (`audit.record: full`) may quote a job, without
tokens of known shapes. The names of objects are the exception that docs/audit.md names.
"""

from __future__ import annotations

import datetime
import io
import itertools
import logging
import shlex

import orjson
import pytest

from e2e.suites.support import thorough
from muster.webhook import kubeyaml, logs
from muster.webhook.admission import answers
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.cli import job_status
from muster.webhook.cli.main import main
from muster.webhook.cli.observed import Observed
from tests.attacks import secret_shapes
from tests.support import admissions, jobs, outlets

SEED = 36
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SHAPES = secret_shapes.drawn(SEED)
MODES = (Mode.ENFORCE, Mode.WARN, Mode.AUDIT)


def _trainjob(**trainer):
    return [jobs.make_trainjob(**{"args": ["--num_machines", "9"], **trainer})]


def _jobset(container=None, pod=None, **more):
    document = jobs.make_jobset(container=container, nodes=2)
    job = document["spec"]["replicatedJobs"][0]
    job["template"]["spec"]["template"]["spec"] |= pod or {}
    job |= more.pop("job", {})
    document["spec"] |= more.pop("spec", {})
    document["metadata"] |= more
    return [document]


def _annotated(key, text):
    return [jobs.make_trainjob(metadata={"annotations": {key: text}}, args=["--num_machines", "9"])]


PLACES = {
    "args": lambda words: _trainjob(command=["trl", "dpo"], args=words),
    "args behind a flag": lambda words: _trainjob(command=["trl", "sft", "--learning_rate"], args=words),
    "command": lambda words: _trainjob(command=["torchrun", "--nnodes=7", *words]),
    "first word": lambda words: _trainjob(command=words),
    "command of accelerate": lambda words: _trainjob(command=["accelerate", "launch", *words]),
    "a number": lambda words: _trainjob(numNodes=" ".join(words)),
    "processes": lambda words: _trainjob(numProcPerNode=" ".join(words)),
    "env value": lambda words: _trainjob(env=[{"name": "PET_NNODES", "value": " ".join(words)}]),
    "env name": lambda words: _trainjob(env=[{"name": " ".join(words), "value": "1"}]),
    "address": lambda words: _trainjob(env=[{"name": "PET_MASTER_ADDR", "value": " ".join(words)}]),
    "image": lambda words: _trainjob(image=" ".join(words)),
    "resource": lambda words: _trainjob(resourcesPerNode={"limits": {" ".join(words): "x"}}),
    "quantity": lambda words: _trainjob(resourcesPerNode={"limits": {"nvidia.com/gpu": " ".join(words)}}),
    "mode": lambda words: _annotated("muster.dev/mode", " ".join(words)),
    "memory": lambda words: _annotated("muster.dev/applied", " ".join(words)),
    "profile": lambda words: _annotated("muster.dev/claim-profile", " ".join(words)),
    "claims": lambda words: _annotated("muster.dev/resource-claims", " ".join(words)),
    "role": lambda words: _annotated("muster.dev/role", " ".join(words)),
    "label": lambda words: [jobs.make_trainjob(metadata={"labels": {"muster.dev/framework": " ".join(words)}})],
    "key of a label": lambda words: [jobs.make_trainjob(metadata={"labels": {" ".join(words): "x"}})],
    "name": lambda words: [jobs.make_trainjob(" ".join(words), args=["--num_machines", "9"])],
    "start of a name": lambda words: [jobs.make_trainjob("", metadata={"generateName": " ".join(words)})],
    "runtime": lambda words: [jobs.make_trainjob(runtime=" ".join(words))],
    "command of a runtime": lambda words: [
        jobs.make_trainjob(runtime="own"),
        jobs.make_runtime("own", container={"command": ["torchrun", "--nnodes=7", *words]}),
    ],
    "env of a runtime": lambda words: [
        jobs.make_trainjob(runtime="own"),
        jobs.make_runtime("own", container={"env": [{"name": "PET_NNODES", "value": " ".join(words)}]}),
    ],
    "model": lambda words: [jobs.make_trainjob(spec={"initializer": {"model": {"storageUri": " ".join(words)}}})],
    "manager": lambda words: [jobs.make_trainjob(spec={"managedBy": " ".join(words)})],
    "JobSet: args": lambda words: _jobset({"command": ["vllm", "serve"], "args": words}),
    "JobSet: command": lambda words: _jobset({"command": [*words, "vllm", "serve"]}),
    "JobSet: env": lambda words: _jobset({"env": [{"name": "MASTER_PORT", "value": " ".join(words)}]}),
    "JobSet: replicated job": lambda words: _jobset(job={"name": " ".join(words)}),
    "JobSet: coordinator": lambda words: _jobset(spec={"coordinator": {"replicatedJob": " ".join(words)}}),
    "JobSet: subdomain": lambda words: _jobset(spec={"network": {"subdomain": " ".join(words)}}),
    "JobSet: container": lambda words: _jobset({"name": " ".join(words)}),
    "JobSet: image": lambda words: _jobset({"image": " ".join(words)}),
    "JobSet: volume": lambda words: _jobset(
        {"volumeMounts": [{"name": "v", "mountPath": " ".join(words)}]},
        {"volumes": [{"name": "v", "hostPath": {"path": " ".join(words), "type": "x"}}]},
    ),
    "JobSet: claim": lambda words: _jobset(
        {"volumeMounts": [{"name": " ".join(words), "mountPath": "/x"}]},
        {"resourceClaims": [{"name": " ".join(words), "resourceClaimName": " ".join(words)}]},
    ),
    "JobSet: probe": lambda words: _jobset({"readinessProbe": {"exec": {"command": words}, "periodSeconds": "x"}}),
    "JobSet: annotation": lambda words: _jobset(annotations={"muster.dev/training": " ".join(words)}),
    "JobSet: label": lambda words: _jobset(labels={jobs.FRAMEWORK: " ".join(words)}),
}
ALL = list(itertools.product(SHAPES, secret_shapes.FORMS, PLACES))
# Each shape in each form, where places and modes take turns: all places have each form.
_SOME = [
    (shape, form, list(PLACES)[(number + 7 * turn) % len(PLACES)])
    for number, shape in enumerate(SHAPES)
    for turn, form in enumerate(secret_shapes.FORMS)
]


def _decided(documents, mode):
    job, *others = documents
    reader = admissions.shipped_reader(*others)
    for phase in ("mutate", "validate"):
        yield admissions.decide(job, phase=phase, policy=Policy(mode=mode), reader=reader)


def _numbered(documents, number):
    """The documents with names of their own, as those of one file have."""
    job, *runtimes = documents
    job["metadata"]["name"] += f"-{number}"
    for each in runtimes:
        job["spec"]["runtimeRef"]["name"] = each["metadata"]["name"] = f"own-{number}"
    return documents


def _texts(documents, mode):
    """Every text that is about a job, but the patch, with the name of where it comes out."""
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(logs.JsonFormatter())
    logging.getLogger().addHandler(handler)
    refusal = ""
    try:
        for decision in _decided(documents, mode):
            refusal += str(answers.answer(decision).get("status", ""))
            yield from outlets.shared(decision)
            yield from outlets.own(decision)
    finally:
        logging.getLogger().removeHandler(handler)
    yield "log", lines.getvalue()
    job = documents[0]
    status = {"conditions": [{"type": "Failed", "status": "True", "message": refusal, "reason": "x"}]}
    kind = {"trainjob" if job["kind"] == "TrainJob" else "jobset": job | {"status": status}}
    status = job_status.of(Observed("team-a", job["metadata"]["name"], NOW, **kind))
    yield "status", "\n".join(job_status.lines(status, 10_000))
    yield "status as JSON", orjson.dumps(status, default=str).decode()


def _leaks(cases):
    """What comes out of which case and where, for the message of the failed test."""
    found = []
    for number, (shape, form, place) in enumerate(cases):
        marks = secret_shapes.marks(SHAPES[shape])
        documents = PLACES[place](secret_shapes.FORMS[form](SHAPES[shape].text))
        for outlet, text in _texts(documents, MODES[number % len(MODES)]):
            if any(mark in text for mark in marks):
                found.append((shape, form, place, outlet, _around(text, marks)))
    return found


def _around(text, marks):
    at = min(text.index(mark) for mark in marks if mark in text)
    return text[max(0, at - 120) : at + 60]


def _told(found):
    return "\n".join([f"{len(found)} come out", *map(str, found[:20])])


def test_there_are_shapes_forms_and_places_enough():
    assert len(SHAPES) >= 45
    assert len(secret_shapes.FORMS) >= 12
    assert len(PLACES) >= 30
    assert {(form, place) for _, form, place in _SOME} == set(itertools.product(secret_shapes.FORMS, PLACES))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_of_a_known_shape_comes_out_nowhere(shape):
    found = _leaks(case for case in _SOME if case[0] == shape)
    assert not found, _told(found)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_comes_out_nowhere_in_any_form_and_any_place(shape):
    found = _leaks(case for case in ALL if case[0] == shape)
    assert not found, _told(found)


COMMANDS = {each: each.split() for each in ("check", "check -o json", "explain", "explain -o json")}


@pytest.mark.parametrize("command", thorough.but_named("check", "explain -o json", of=COMMANDS))
@pytest.mark.parametrize("form", secret_shapes.FORMS)
def test_a_command_about_files_quotes_no_secret_of_a_known_shape(command, form, tmp_path, capsys):
    found, file = [], tmp_path / "jobs.yaml"
    cases = [case for case in _SOME if case[1] == form]
    texts = [
        kubeyaml.dump(each)
        for number, (shape, _, place) in enumerate(cases)
        for each in _numbered(PLACES[place](secret_shapes.FORMS[form](SHAPES[shape].text)), number)
    ]
    file.write_text("---\n".join(texts))
    main([*command, str(file)])
    said = "".join(capsys.readouterr())
    assert len(said) > 10_000
    for shape, _, place in cases:
        marks = secret_shapes.marks(SHAPES[shape])
        if any(mark in said for mark in marks):
            found.append((shape, form, place, shlex.join(command), _around(said, marks)))
    assert not found, _told(found)
