"""Volume claims: completed by JobSet's own webhook at CREATE only, so that every later apply of Trainer's differs."""

from __future__ import annotations

from e2e.suites.lifecycle import lives
from e2e.suites.lifecycle.lives import Life
from e2e.suites.support import documents

CLAIM = {
    "metadata": {"name": "workspace"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def test_a_job_whose_runtime_has_volume_claims_is_suspended_and_resumed(space, installation):
    mount = {"volumeMounts": [{"name": "workspace", "mountPath": "/workspace"}]}
    runtime = documents.training_runtime("claims", "torch", nodes=2, command=["torchrun", "train.py"], container=mount)
    runtime["spec"]["template"]["spec"]["volumeClaimPolicies"] = [{"templates": [CLAIM]}]
    lives.submit(space, runtime, documents.trainjob("life", "claims", trainer={}, suspend=True))

    life = Life(space, "life", installation, runs=False)
    stored = space.jobset("life")["spec"]["volumeClaimPolicies"]
    life.turn()

    assert stored[0]["retentionPolicy"] == {"whenDeleted": "Delete"}
    assert space.jobset("life")["spec"]["volumeClaimPolicies"] == stored
    life.delete()
