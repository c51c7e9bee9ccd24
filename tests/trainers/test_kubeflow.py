"""What the SDK is given, and what is told of its answers; the real SDK is in e2e/suites/sdk."""

from __future__ import annotations

import enum
import importlib.util
import io
import json
import sys
import types as modules
import warnings
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import muster
from muster import kubeflow
from tests.operations import pages

JOB = json.dumps({"kind": "TrainJob", "metadata": {"name": "job"}})


class Kind(enum.Enum):
    CLUSTER = "ClusterTrainingRuntime"


class TrainerType(enum.Enum):
    BUILTIN_TRAINER = "BuiltinTrainer"
    CUSTOM_TRAINER = "CustomTrainer"


class Headers(dict):
    def getlist(self, name):
        return self.get(name, [])


class Client:
    """TrainerClient, as far as it is used: what it is given, and the answer that its ApiClient keeps."""

    def __init__(self, *told, body=JOB, error=None, runtimes=(), status=None):
        answer = SimpleNamespace(data=body, getheaders=lambda: Headers(Warning=list(told)))
        self.error, self.given, self.sent, self.runtimes = error, None, None, runtimes
        self.status, self.asked = status, None
        custom = SimpleNamespace(
            api_client=SimpleNamespace(last_response=answer),
            create_namespaced_custom_object=self.create,
            get_namespaced_custom_object=self.get,
        )
        self.backend = SimpleNamespace(namespace="team", custom_api=custom)

    def list_runtimes(self):
        if None in self.runtimes:
            raise ValueError("one of the cluster's runtimes has no mlPolicy")
        return list(self.runtimes)

    def get_runtime(self, name):
        found = next((each for each in self.runtimes if each and each.name == name), None)
        if found is None:
            raise RuntimeError(f"Failed to get Runtime: {name}")
        return found

    def train(self, **given):
        self.given = given
        if self.error:
            raise RuntimeError("Failed to create TrainJob: team/job") from self.error
        return "job"

    def get(self, *asked):
        self.asked = asked
        return {"kind": "TrainJob", "metadata": {"name": "job"}, "status": self.status}

    def create(self, *sent):
        self.sent = sent
        if self.error:
            raise self.error


class ApiError(Exception):
    def __init__(self, body):
        self.body = body


def runtime(name="own-trl", framework="trl", kind=TrainerType.CUSTOM_TRAINER):
    trainer = SimpleNamespace(framework=framework, trainer_type=kind)
    return SimpleNamespace(name=name, kind=Kind.CLUSTER, trainer=trainer)


TUNED = runtime("torchtune-llama3.2-1b", "torchtune", TrainerType.BUILTIN_TRAINER)


@pytest.fixture
def sdk(monkeypatch):
    """The SDK's types, which keep what they are given."""

    def named(name):
        return lambda **given: SimpleNamespace(called=name, **given)

    found = modules.ModuleType("kubeflow.trainer.types.types")
    found.TrainerType = TrainerType
    for name in ("CustomTrainerContainer", "BuiltinTrainer", "TorchTuneConfig"):
        setattr(found, name, named(name))
    package = modules.ModuleType("kubeflow.trainer.types")
    package.types = found
    for each in ("kubeflow", "kubeflow.trainer"):
        monkeypatch.setitem(sys.modules, each, modules.ModuleType(each))
    monkeypatch.setitem(sys.modules, "kubeflow.trainer.types", package)


def filled(options, job=None):
    job = job if job is not None else {}
    for each in options:
        each(job, None, SimpleNamespace(custom_api=None))
    return job


@pytest.mark.skipif(importlib.util.find_spec("kubeflow") is not None, reason="the SDK is installed here")
def test_without_the_sdk_the_error_names_what_to_install():
    with pytest.raises(kubeflow.SDKMissingError, match=r"pip install 'muster-admission\[kubeflow\]'"):
        muster.TRLTrainer(model="m").to_kubeflow(runtime())


def test_nodes_and_resources_are_in_the_sdks_trainer_and_the_launch_in_an_option(sdk):
    trainer = muster.TRLTrainer(
        model="m", dataset="d", num_nodes=2, resources_per_node={"gpu": 1}, env={"A": "b"}, role="sampler"
    )
    given = trainer.to_kubeflow(runtime())
    assert vars(given["trainer"]) == {
        "called": "CustomTrainerContainer",
        "image": "",
        "num_nodes": 2,
        "resources_per_node": {"gpu": "1"},
        "env": {"A": "b"},
    }
    job = filled(given["options"], {"metadata": {"labels": {"team": "a"}}})
    wanted = trainer.to_trainjob("x", runtime="r")
    assert job["spec"]["trainer"] == {member: wanted["spec"]["trainer"][member] for member in ("command", "args")}
    assert job["metadata"]["labels"] == {"team": "a", "muster.dev/role": "sampler"}


def test_a_torchtune_job_is_the_sdks_builtin_trainer_with_our_arguments(sdk):
    given = muster.TorchTuneTrainer(epochs=1, num_nodes=1, arguments={"optimizer.lr": 1.0}).to_kubeflow(TUNED)
    assert (given["trainer"].called, given["trainer"].config.num_nodes) == ("BuiltinTrainer", 1)
    launch = {"command": ["tune", "run"], "args": ["epochs=1", "optimizer.lr=1.0"]}
    assert filled(given["options"])["spec"]["trainer"] == launch


def test_a_runtime_of_another_framework_is_an_error():
    with pytest.raises(muster.RuntimeChoiceError, match="is for torchtune, and this trainer is for trl"):
        muster.TRLTrainer(model="m").to_kubeflow(TUNED)


def test_what_the_sdk_does_not_send_is_an_error_that_says_how_it_can_be_sent(sdk):
    with pytest.raises(ValueError, match=r"^num_proc_per_node: .* or use muster\.kubeflow\.submit"):
        muster.TRLTrainer(model="m", num_proc_per_node=2).to_kubeflow(runtime())
    with pytest.raises(ValueError, match=r"^env: kubeflow's SDK 0\.5 does not send it with a torchtune job"):
        muster.TorchTuneTrainer(env={"A": "b"}).to_kubeflow(TUNED)


def test_a_command_of_another_option_is_an_error(sdk):
    given = muster.TRLTrainer(model="m").to_kubeflow(runtime())
    with pytest.raises(ValueError, match="remove TrainerCommand and TrainerArgs"):
        filled(given["options"], {"spec": {"trainer": {"args": ["--seed=1"]}}})


def test_another_backend_is_an_error(sdk):
    (option,) = muster.TRLTrainer(model="m").to_kubeflow(runtime())["options"]
    with pytest.raises(ValueError, match="use the Kubernetes backend"):
        option({}, None, object())


def test_the_one_runtime_of_a_framework_is_chosen_and_others_are_listed():
    client = Client(runtimes=[runtime(), TUNED])
    assert kubeflow.choose_runtime(client, "trl").name == "own-trl"
    with pytest.raises(muster.RuntimeChoiceError, match=r"own-trl \(trl\), torchtune-llama3.2-1b \(torchtune\)"):
        kubeflow.choose_runtime(client, "jax")


def test_a_named_runtime_is_chosen_where_others_cannot_be_listed():
    client = Client(runtimes=[None, runtime()])
    assert kubeflow.choose_runtime(client, "trl", "own-trl").name == "own-trl"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own", r"there is no runtime 'own'; there are own-trl \(trl\)"),
        (TUNED.name, "is for torchtune, and this trainer"),
    ],
)
def test_a_name_that_does_not_fit_is_an_error_that_lists_what_there_is(name, said):
    with pytest.raises(muster.RuntimeChoiceError, match=said):
        kubeflow.choose_runtime(Client(runtimes=[runtime(), TUNED]), "trl", name)


def test_train_finds_the_runtime_itself(sdk):
    client = Client(runtimes=[runtime(), TUNED])
    assert kubeflow.train(client, muster.TRLTrainer(model="m")) == "job"
    assert client.given["runtime"].name == "own-trl"


def test_a_config_of_ours_is_sent_from_a_builtin_trainer_with_the_needs_that_stand_there(sdk):
    config = muster.TRLConfig(method=muster.TRLSFTConfig(packing=True), model_name_or_path="m", num_nodes=1)
    for builtin, nodes in (
        (SimpleNamespace(config=config), 1),
        (SimpleNamespace(config=config, num_nodes=2, resources_per_node={"gpu": 1}), 2),
    ):
        client = Client(runtimes=[runtime(), TUNED])
        assert kubeflow.train(client, builtin) == "job"
        assert client.given["trainer"].num_nodes == nodes
        launch = filled(client.given["options"])["spec"]["trainer"]
        assert launch["command"] == ["torchrun", "-m"]
        assert launch["args"][0] == "trl.scripts.sft"


def test_a_builtin_trainer_with_a_config_of_the_sdk_is_sent_as_it_is():
    client, builtin = Client(), SimpleNamespace(config=SimpleNamespace(epochs=1))
    kubeflow.train(client, builtin, runtime="r")
    assert client.given["trainer"] is builtin


POSTED = {
    "progressPercentage": 40,
    "estimatedRemainingSeconds": 60,
    "lastUpdatedTime": "2026-11-28T10:00:00Z",
    "metrics": [{"name": "loss", "value": "1.2"}, {"name": "muster.dev/world-size", "value": "2"}],
}


def test_what_a_training_posted_is_read_from_the_status_of_its_job():
    client = Client(status={"trainerStatus": POSTED})
    status = kubeflow.trainer_status(client, "job")
    assert client.asked == ("trainer.kubeflow.org", "v1alpha1", "team", "trainjobs", "job")
    assert (status.progress, status.remaining, status.updated) == (40, 60, "2026-11-28T10:00:00Z")
    assert status.metrics == {"loss": "1.2", "muster.dev/world-size": "2"}
    assert str(status) == "40 %, loss=1.2"


@pytest.mark.parametrize("status", [{}, {"trainerStatus": None}, {"trainerStatus": 3}])
def test_where_nothing_was_posted_there_is_no_trainer_status(status):
    assert kubeflow.trainer_status(Client(status=status), "job") is None


def test_progress_shows_what_the_training_posted_where_it_has_a_client():
    job = SimpleNamespace(name="job", status="Running", num_nodes=1, steps=[])
    for status, told in (({"trainerStatus": POSTED}, "; 40 %, loss=1.2"), ({}, "")):
        stream = io.StringIO()
        kubeflow.Progress(stream, lambda: 0.0, Client(status=status))(job)
        assert stream.getvalue() == f"job: Running, 0 of 1 nodes started{told} (0 s)\n"


def test_each_warning_of_the_answer_is_shown_with_its_quotes():
    client = Client('299 - "spec.x: no \\"gpu\\" is asked for"', '299 - "second"')
    with pytest.warns(kubeflow.AdmissionWarning) as seen:
        kubeflow.train(client, trainer=SimpleNamespace(), runtime="r", options=[len])
    assert [str(each.message) for each in seen] == ['spec.x: no "gpu" is asked for', "second"]
    assert {each.filename for each in seen} == {__file__}
    assert client.given["options"] == [len]


def test_without_warnings_nothing_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kubeflow.train(Client(), SimpleNamespace()) == "job"


@pytest.mark.parametrize("body", ['{"kind": "TrainJobList"}', "[]", "x", JOB.replace('"job"', '"other"')])
def test_an_answer_to_another_request_is_not_taken_for_this_one(body):
    with pytest.warns(kubeflow.AdmissionWarning, match="^job: the warnings could not be read"):
        kubeflow.train(Client('299 - "of another"', body=body), SimpleNamespace())


def test_a_backend_without_an_api_server_has_no_warnings():
    client = Client()
    client.backend = object()
    assert kubeflow.train(client, SimpleNamespace()) == "job"


def test_a_refusal_has_the_api_servers_message():
    causes = [{"field": "spec.trainer.args[3]", "message": "unknown (muster trl/unknown-flag)"}]
    status = {"message": "did you mean --seed?", "details": {"causes": causes}}
    client = Client(error=ApiError(json.dumps(status)))
    with pytest.raises(kubeflow.RefusedError, match=r"^did you mean --seed\?$") as raised:
        kubeflow.train(client, SimpleNamespace())
    assert raised.value.causes == ("spec.trainer.args[3]: unknown (muster trl/unknown-flag)",)
    client = Client(error=ApiError('{"message": "did you mean --seed?", "details": null}'))
    with pytest.raises(kubeflow.RefusedError, match=r"^did you mean --seed\?$"):
        kubeflow.submit(client, {"metadata": {"name": "job"}})


@pytest.mark.parametrize("body", [None, "x", "[]", "{}"])
def test_an_error_that_is_not_an_answer_stays_what_it_is(body):
    with pytest.raises(RuntimeError, match=r"^Failed to create TrainJob: team/job$") as raised:
        kubeflow.train(Client(error=ApiError(body)), SimpleNamespace())
    assert not isinstance(raised.value, kubeflow.RefusedError)


@pytest.mark.parametrize(("metadata", "namespace"), [({}, "team"), ({"namespace": "other"}, "other")])
def test_a_document_is_submitted_as_it_is(metadata, namespace):
    client = Client('299 - "careful"')
    document = {"kind": "TrainJob", "metadata": {"name": "job", **metadata}}
    with pytest.warns(kubeflow.AdmissionWarning, match="^careful$"):
        assert kubeflow.submit(client, document) == "job"
    assert client.sent == ("trainer.kubeflow.org", "v1alpha1", namespace, "trainjobs", document)


def seen(stream, *states):
    seconds = iter(range(100))
    show = kubeflow.Progress(stream, lambda: next(seconds))
    for status, *steps in states:
        nodes = [SimpleNamespace(name=f"node-{index}", status=each) for index, each in enumerate(steps)]
        nodes.append(SimpleNamespace(name="model-initializer", status="Running"))
        show(SimpleNamespace(name="sft", status=status, num_nodes=2, steps=nodes))
    return stream.getvalue()


def test_progress_is_a_line_for_each_change():
    states = (["Created"], ["Created"], ["Created", "Running", "Pending"], ["Complete", "Succeeded", "Succeeded"])
    assert seen(io.StringIO(), *states).splitlines() == [
        "sft: Created, 0 of 2 nodes started (1 s)",
        "sft: Created, 1 of 2 nodes started (3 s)",
        "sft: Complete, 2 of 2 nodes started (4 s)",
    ]


def test_progress_on_a_terminal_is_one_line_with_a_bar():
    stream = io.StringIO()
    stream.isatty = lambda: True
    shown = seen(stream, ["Created", "Running", None], ["Failed", "Running", "Failed"])
    assert shown == (
        "\r\x1b[K[##########----------] sft: Created, 1 of 2 nodes started, 1 s"
        "\r\x1b[K[##########----------] sft: Failed, 1 of 2 nodes started, 2 s\n"
    )


def test_the_page_about_trainers_shows_code_that_runs(sdk, monkeypatch, capsys):
    block = pages.section("docs/python.md", "Send jobs with kubeflow's SDK").split("```python\n")[1].partition("```")[0]
    client = Client(runtimes=[runtime("trl-distributed")])
    client.wait_for_job_status, client.get_job_logs, client.get_job_events, client.delete_job = (
        Mock(),
        Mock(return_value=iter(["step 1"])),
        Mock(return_value=[SimpleNamespace(reason="MusterDenied", message="refused")]),
        Mock(),
    )
    monkeypatch.setattr(sys.modules["kubeflow.trainer"], "TrainerClient", lambda: client, raising=False)
    exec(block, {"trainer": muster.TRLTrainer(model="m", dataset="d")})  # noqa: S102  # the page of this repository
    assert capsys.readouterr().out == "step 1\nMusterDenied refused\n"
    client.wait_for_job_status.assert_called_once()
    client.delete_job.assert_called_once_with("job")
