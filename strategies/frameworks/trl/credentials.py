"""Credentials: services that a training speaks to, and that nothing in its pod gives a key for.

Without a terminal nobody can be asked, so that wandb and the hub end the training at its start. The image may hold a
key, and TRL's documentation pushes without a word of one, so this is a note. Sources: huggingface_hub 2.4
`utils/_auth.py` get_token, wandb `sdk/lib/apikey.py`, transformers 5.23 `integrations/integration_utils.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.strategies.documents.findings import Finding, note
from muster.strategies.frameworks.trl.parsing import Value
from muster.strategies.jobs.jobs import Job

__all__ = ["check"]

_RULE = "trl/credentials"
_HUB = frozenset({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HOME"})
_WANDB = frozenset({"WANDB_API_KEY", "WANDB_MODE", "WANDB_DISABLED", "NETRC", "WANDB_IDENTITY_TOKEN_FILE"})
_HOLDING = ("secret", "projected", "csi")
"""Kinds of volumes that hold keys."""


def check(job: Job, values: Mapping[str, Value | None], names: Iterable[str | None], field: str) -> Iterator[Finding]:
    """Tell of a service without a key.

    Args:
        job: the job.
        values: the arguments of the training.
        names: of the variables of its container.
        field: field path of its arguments.
    """
    pushes = values.get("push_to_hub") is True and "hub_token" not in values
    reports = "wandb" in _words(values.get("report_to"))
    if not (pushes or reports) or _is_hidden(job):
        return
    if pushes and _HUB.isdisjoint(names):
        message = (
            "nothing gives the pod a token of the hub, without which nothing is pushed; set HF_TOKEN from a Secret"
        )
        yield note(field, "--push_to_hub", message, rule=_RULE)
    if reports and _WANDB.isdisjoint(names):
        message = (
            "nothing gives the pod a key of wandb, without which TRL stops at its start; set WANDB_API_KEY from a "
            "Secret, or WANDB_MODE to offline"
        )
        yield note(field, "--report_to wandb", message, rule=_RULE)


def _words(value: object) -> list[str]:
    return [str(each) for each in (value if isinstance(value, list) else [value])]


def _is_hidden(job: Job) -> bool:
    """Whether a whole ConfigMap or Secret, or a volume of keys, may give what is looked for."""
    if job.container is None or job.container.container.get("envFrom"):
        return True
    volumes = job.container.pod_spec.get("volumes") or ()
    return any(isinstance(each, dict) and any(each.get(kind) is not None for kind in _HOLDING) for each in volumes)
