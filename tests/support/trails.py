"""An audit log of real decisions: the shipped examples, admitted as by the server, made known and sealed."""

from __future__ import annotations

import copy
import datetime
from pathlib import Path

import yaml

from muster.audit import chain, known
from muster.webhook.admission import accounts
from tests.support import admissions, jobs, upstream

ROOT = Path(__file__).parents[2]
EXAMPLES = (
    "02-torch-torchrun-multi-node",
    "04-torchtune-lora",
    "14-wrong-numbers",
    "06-trl-dpo-accelerate-config-fsdp2",
    "07-trl-grpo-vllm-server-missing",
    "01-trl-sft-two-nodes",
)
USERS = ("ada", "grace", "system:serviceaccount:kubeflow:kubeflow-trainer-controller-manager")
START = datetime.datetime(2026, 3, 1, 8, 30, 0, 123456, tzinfo=datetime.UTC)


def decisions(examples=EXAMPLES):
    """The records of these examples, in order: both phases of each TrainJob, then of its JobSet."""
    out = []
    for number, name in enumerate(examples):
        path = ROOT / "manifests" / "examples" / f"{name}.yaml"
        trainjob = next(each for each in yaml.safe_load_all(path.read_text()) if each["kind"] == "TrainJob")
        user = {"username": USERS[number % 2], "groups": ["system:authenticated"]}
        admitted, passed = _admitted(out, trainjob, (), user, f"{number}-trainjob")
        runtime = jobs.shipped_runtimes().get(trainjob["spec"]["runtimeRef"]["name"])
        if passed and runtime:
            admitted["metadata"] |= {"uid": jobs.UID, "namespace": jobs.NAMESPACE}
            jobset = upstream.build_jobset(upstream.default_trainjob(admitted), runtime)
            _admitted(out, jobset, (admitted,), {"username": USERS[2]}, f"{number}-jobset")
    return out


def lines(records, link=None):
    """The lines of these records in one chain."""
    link = link or chain.Chain()
    return [link.seal(known.record(record)) for record in records]


def _admitted(out, document, others, user, uid):
    passed = True
    for phase in ("mutate", "validate"):
        reader = admissions.shipped_reader(*others)
        decision = admissions.decide(document, reader=reader, phase=phase, uid=uid, userInfo=user)
        moment = START + datetime.timedelta(seconds=7 * len(out))
        out.append(accounts.record(decision, moment, 0.000412))
        document, passed = copy.deepcopy(dict(decision.document)), passed and decision.allowed
    return document, passed
