"""What is stored after CREATE and UPDATE, and files that users send again: the material of the tests of restoring."""

from __future__ import annotations

import copy
import json

from tests.support import admissions, jobs, merges

APPLIED = "muster.dev/applied"
WAYS = {
    "server-side apply": merges.reapply_server_side,
    "client-side apply": merges.reapply_client_side,
    "replace": merges.replace,
}


def stored(document, *cluster, **how):
    """What is stored after CREATE."""
    return admissions.patched(document, admissions.respond(document, *cluster, **how))


def updated(old, incoming, **how):
    """What is stored after UPDATE; the cluster is empty, because an UPDATE reads nothing from it."""
    return admissions.patched(incoming, admissions.respond(incoming, operation="UPDATE", old=old, **how))


def remembered(document):
    return json.loads(document["metadata"]["annotations"][APPLIED])["fields"]


def with_memory(document, fields, **metadata):
    """The document as if Muster had remembered these fields."""
    out = copy.deepcopy(document)
    note = fields if isinstance(fields, str) else json.dumps({"strategy": "x", "version": "1", "fields": fields})
    out["metadata"] = {**out["metadata"], "annotations": {APPLIED: note}, **metadata}
    return out


TRAINJOBS = {
    "a rewritten command": jobs.make_trainjob(command=["trl", "sft"], args=["--a"], numNodes=2),
    "args that are kept": jobs.make_trainjob(command=["trl"], args=["sft", "--learning_rate", "1"], numNodes=2),
    "an accelerate preset": jobs.make_trainjob(
        command=["trl", "sft"],
        args=["--accelerate_config", "fsdp2", "--a"],
        env=[{"name": "A", "value": "1"}],
        numNodes=2,
    ),
    "no trainer section": jobs.make_trainjob(),
    "a pinned process count": jobs.make_trainjob(
        command=["torchrun", "x.py"], resourcesPerNode={"limits": {"nvidia.com/mig-1g.10gb": 2, "cpu": "8"}}
    ),
    "annotations and labels of its own": jobs.make_trainjob(
        command=["trl", "dpo"], metadata={"annotations": {"a": "b"}, "labels": {"c": "d"}}, numNodes=2
    ),
}
JOBSETS = {
    "a server without a command": jobs.make_jobset(container={"args": ["--model=m"]}),
    "a server with features": jobs.make_jobset(
        container={"command": ["vllm", "serve", "m"], "env": [{"name": "A", "value": "1"}]},
        metadata={"annotations": {"muster.dev/vllm-features": "lora"}},
    ),
    "a torchrun of its own": jobs.make_jobset(
        framework="torch",
        nodes=2,
        container={"command": ["torchrun", "x.py"], "env": [{"name": "Z", "value": "1"}, {"name": "A", "value": "2"}]},
    ),
    "env that was missing": jobs.make_jobset(framework="torch", nodes=2, container={"command": ["torchrun", "x.py"]}),
}
EVERY = {**TRAINJOBS, **JOBSETS}
