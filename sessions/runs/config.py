"""What a Gateway is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from muster.kube.authentication import Credentials
from muster.sessions.platforms.manifests import Settings
from muster.sessions.runs.quotas import Quotas

__all__ = ["Config", "Limits", "OnPods"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds, each with what happens beyond it.

    Attributes:
        gap: seconds that a model waits for a number that is missing, before it goes on without it.
        heartbeat: seconds without one after which a session ends.
        poll: seconds that the answer to a poll is held; the client gives up after 45.
        retained: seconds that the result of a request can be fetched.
        records: seconds that a tenant can look up what he did and used.
        body: bytes of a request, after decompression; beyond it 413.
        bodies: bytes of all requests in memory, decompressed ones as well; beyond it 503 for who has the most.
        attempts: how often a request is tried on engines that die of it.
        link: seconds that a link to a file can be used.
        lease: seconds after which another Gateway of the same journal takes over from one that says nothing.
    """

    gap: float = 30.0
    heartbeat: float = 600.0
    poll: float = 25.0
    retained: float = 3600.0
    records: float = 90 * 86400.0
    body: int = 64 << 20
    bodies: int = 512 << 20
    attempts: int = 3
    link: float = 600.0
    lease: float = 10.0


@dataclass(frozen=True, slots=True)
class OnPods:
    """Engines as pods of a Kubernetes cluster.

    Attributes:
        settings: of the pods.
        access: to the API server.
    """

    settings: Settings
    access: Credentials


@dataclass(frozen=True, slots=True)
class Config:
    """A Gateway, and where its engines are.

    Attributes:
        root: folder of its journal, weights and sockets.
        base: folder of the base model.
        name: of the base model, as clients name it.
        context: tokens that the model reads at most.
        limits: bounds.
        trainer: `MODULE:CLASS` of what trains.
        sampler: `MODULE:CLASS` of what samples.
        url: where clients reach it, for the links that it answers; None for the address that each request was sent to.
        sampler_python: interpreter that it runs in, such as one that has vLLM; None is that of the Gateway.
        sampler_options: of its constructor, as `KEY=VALUE`.
        journal: URL of a PostgreSQL database that Gateways share; None for SQLite in `root`.
        replica: of Gateways that share a journal and `root`, which one this is.
        trainer_options: of the trainer's constructor, as `KEY=VALUE`.
        full: whether all weights of one model are trained, and no adapters.
        quotas: what tenants may have and ask for.
        audit: file of the audit log; None for none.
        device_lease: socket of the agent of a device on which the engines take turns with others; None for their own.
        device_weight: of these engines there.
        trainer_python: interpreter that the trainer runs in, as `sampler_python` is that of the sampler.
        pods: where engines are pods; None for processes of this machine.
    """

    root: Path
    base: Path
    name: str
    context: int
    limits: Limits = field(default_factory=Limits)
    trainer: str = "muster.sessions.engines.trainer:TorchTrainer"
    sampler: str = "muster.sessions.engines.sampler:TransformersSampler"
    url: str | None = None
    sampler_python: str | None = None
    sampler_options: tuple[str, ...] = ()
    journal: str | None = None
    replica: str = "gateway"
    trainer_options: tuple[str, ...] = ()
    full: bool = False
    quotas: Quotas = field(default_factory=Quotas)
    audit: Path | None = None
    trainer_python: str | None = None
    device_lease: Path | None = None
    device_weight: float = 1.0
    pods: OnPods | None = None
