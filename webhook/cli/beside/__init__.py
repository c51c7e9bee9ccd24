"""Beside: what other documents of the same input say about a job: objects that collide, that it names, that limit it.

A file of helm or kustomize holds a job with its ConfigMaps, Secrets, Services and quotas. The service sees the job
alone; the commands on files see them all. What a document says holds for jobs of its own namespace. Two jobs of one
name may be files for two environments, so that jobs are compared with each other within one file alone.
"""

from __future__ import annotations

from muster.webhook.cli.beside import inlined
from muster.webhook.cli.beside.checks import check, settled
from muster.webhook.cli.beside.inputs import Inputs

__all__ = ["Inputs", "check", "inlined", "settled"]
