"""A small cluster: API server, Trainer's controller, JobSet's webhooks and Muster around one TrainJob.

Everything that a real cluster would refuse is raised as `DeniedError`, which names who refused what.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from tests.support import admissions, jobs, merges, upstream


class DeniedError(Exception):
    """The API server did not store an object."""


@dataclass
class World:
    """One TrainJob and its JobSet under one runtime.

    Attributes:
        runtime: the runtime in force; Trainer freezes it for the job in a snapshot, which is the same here.
        policy: the policy of the Muster that answers now; a test may change it between two steps.
        others: further documents of the cluster.
    """

    runtime: dict[str, Any]
    policy: Any = admissions.POLICY
    others: tuple[Any, ...] = ()
    trainjob: Any = None
    jobset: Any = None
    applied: Any = None
    updates: int = 0

    def create(self, trainjob):
        """Store a TrainJob as the API server would."""
        incoming = upstream.default_trainjob(trainjob)
        incoming["metadata"].setdefault("uid", jobs.UID)
        self.trainjob = self._admitted(incoming)

    def update(self, trainjob):
        """Store another version of the TrainJob."""
        admitted = self._admitted(upstream.default_trainjob(trainjob), self.trainjob)
        self._check("TrainJob", upstream.refuse_trainjob(self.trainjob, admitted))
        self.trainjob = admitted

    def reconcile(self):
        """Trainer's controller: applies the JobSet unless it exists and neither of the two is suspended."""
        if self.jobset is not None and not (self.trainjob["spec"]["suspend"] or self.jobset["spec"].get("suspend")):
            return
        sent = upstream.build_jobset(self.trainjob, self.runtime)
        if self.jobset is None:
            stored = self._admitted(sent)
            self.jobset = upstream.default_jobset(stored)
        else:
            self.update_jobset(merges.apply(self.jobset, self.applied, sent))
        self.applied = sent

    def update_jobset(self, incoming):
        """Store another version of the JobSet, past its own validating webhook."""
        admitted = self._admitted(incoming, self.jobset)
        self._check("JobSet", upstream.refuse_jobset(self.jobset, admitted))
        self.updates += admitted != self.jobset
        self.jobset = admitted

    def _admitted(self, incoming, old=None):
        operation = "CREATE" if old is None else "UPDATE"
        for phase in ("mutate", "validate"):
            response = admissions.respond(
                incoming,
                *(document for document in (self.runtime, self.trainjob, *self.others) if document),
                phase=phase,
                operation=operation,
                old=copy.deepcopy(old),
                policy=self.policy,
            )
            if not response["allowed"]:
                raise DeniedError(f"Muster refused the {incoming['kind']}: {response['status']['message']}")
            incoming = admissions.patched(incoming, response)
        return incoming

    def _check(self, kind, refused):
        if refused:
            raise DeniedError(f"the API server refused the {kind}: {', '.join(refused)} must not change")
