"""Makes a week of audit records by Muster itself, for a notebook: its decisions about drawn jobs, and its log writer.

    python week.py FILE

Only the clock and the jobs are invented. Each job is sent through both webhooks, as the API server does, and how long a
decision takes is measured on this machine.
"""

from __future__ import annotations

import datetime
import random
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from muster.audit import known
from muster.audit.sinks import RotatingFileSink
from muster.audit.writer import AuditWriter
from muster.webhook.admission import accounts, decisions, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader

MONDAY = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
RUNTIMES = Path(__file__).parents[2] / "manifests" / "runtimes"
NEEDED = ["--model_name_or_path=Qwen/Qwen2.5-0.5B", "--dataset_name=trl-lib/Capybara", "--output_dir=/workspace/out"]
GPU = {"limits": {"nvidia.com/gpu": 1}}
JOBS: dict[str, dict[str, Any]] = {
    "right": {"command": ["torchrun", "-m", "trl.scripts.sft"], "args": NEEDED, "resourcesPerNode": GPU},
    "by trl": {"command": ["trl", "sft"], "args": NEEDED, "resourcesPerNode": GPU},
    "with a preset": {"command": ["trl", "sft"], "args": ["--accelerate_config", "fsdp2", *NEEDED]},
    "of CPUs": {"command": ["trl", "sft"], "args": NEEDED, "resourcesPerNode": {"limits": {"cpu": 4}}},
    "of a script": {"command": ["bash", "-c"], "args": ["./train.sh"], "resourcesPerNode": GPU},
    "misspelt": {"command": ["trl", "sft"], "args": [*NEEDED, "--learning_rte=2e-5"], "resourcesPerNode": GPU},
    "in both precisions": {"command": ["trl", "sft"], "args": [*NEEDED, "--bf16=true", "--fp16=true"]},
    "of no nodes": {"command": ["trl", "sft"], "args": NEEDED, "numNodes": 0},
}
TEAMS = {
    "vision": ([8, 6, 1, 1, 1, 1, 0, 0], 12),
    "language": ([4, 12, 3, 1, 2, 3, 2, 1], 25),
    "newcomers": ([1, 6, 0, 4, 3, 6, 2, 2], 8),
}
"""Of each team: weights of the jobs above, and how many it sends on a working day."""


def jobs(seed: int = 0) -> Iterator[tuple[datetime.datetime, str, dict[str, Any]]]:
    """Yield moments, teams and TrainJobs of a week, in the order of time; at the weekend there are few."""
    chance = random.Random(seed)
    drawn = []
    for day in range(7):
        for team, (weights, each_day) in TEAMS.items():
            for _ in range(round(each_day * chance.uniform(0.7, 1.3) / (1 if day < 5 else 6))):
                seconds = chance.gauss(13.5, 2.5) * 3600
                moment = MONDAY + datetime.timedelta(days=day, seconds=min(max(seconds, 0), 86399))
                drawn.append((moment, team, *chance.choices([*JOBS.items()], weights)))
    for number, (moment, team, (_, trainer)) in enumerate(sorted(drawn, key=lambda each: each[0])):
        yield moment, team, _trainjob(f"job-{number}", trainer)


def main(path: Path) -> None:
    """Write the records of the week."""
    cluster = InMemoryReader([yaml.safe_load(each.read_text()) for each in sorted(RUNTIMES.glob("t*.yaml"))])
    policy = Policy()
    writer = AuditWriter([RotatingFileSink(path)])
    for moment, team, job in jobs():
        sent: Mapping[str, Any] = job
        for phase in ("mutate", "validate"):
            request = _request(phase, team, sent)
            begun = time.perf_counter()
            decision = decisions.evaluate(request, cluster, policy)
            record = accounts.record(decision, moment, time.perf_counter() - begun)
            writer.submit(known.record(record))
            sent = decision.document
    if not writer.close(timeout=60):
        raise SystemExit(f"{path}: the records were not written within 60 s")


def _trainjob(name: str, trainer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": "trl-distributed"}, "trainer": {"numNodes": 2, **trainer}},
    }


def _request(phase: reviews.Phase, team: str, job: Mapping[str, Any]) -> reviews.Request:
    return reviews.Request(
        phase=phase,
        uid=f"{job['metadata']['name']}-{phase}",
        operation="CREATE",
        kind="TrainJob",
        group="trainer.kubeflow.org",
        namespace=team,
        name=job["metadata"]["name"],
        document=job,
        old=None,
        dry_run=False,
        username=f"{team}@example.org",
        groups=(),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
