"""Migrations: jobs of training-operator, of mpi-operator and of older Trainers, written for the Trainer of today.

`members.toml` says what becomes of each member of each source kind. `notes` compares a document with it, so that
nothing is dropped in silence. One module for each source kind makes the rest: `pytorch`, `mpi`, `others`, `older`.
They describe the job (`pods`), and `targets` writes a TrainJob on a runtime that is shipped where that is enough, else
on one of its own. `writing` puts the notes into the YAML.
"""

from __future__ import annotations

from muster.webhook.cli.migrations.conversion import SOURCES, migrate, numbers
from muster.webhook.cli.migrations.migration_notes import Migrated, Note, Unmigrated
from muster.webhook.cli.migrations.trainjob_writing import text

__all__ = ["SOURCES", "Migrated", "Note", "Unmigrated", "migrate", "numbers", "text"]
