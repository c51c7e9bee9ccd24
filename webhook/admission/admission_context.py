"""The context of a request: all that its decision depends on, read once and before anything is decided.

What cannot be read is no exception here. It is a part of the context (`misfits`, `trouble`), and the decision follows
from it as from any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct, structs

from muster.strategies.changes.changes import Changes
from muster.strategies.checks.role_checks import Nodes
from muster.strategies.documents import decoding
from muster.strategies.documents.findings import Finding
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import program_kinds
from muster.strategies.platform.placements import Node, Role
from muster.strategies.plugins.registry import Registered
from muster.webhook.admission import budgets, documents, governors, supply_lookup
from muster.webhook.admission.documents import BeyondError, UnreadableError
from muster.webhook.admission.governors import Governor
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.admission.reviews import Request
from muster.webhook.cluster import readers

__all__ = ["Context", "of", "read"]


def _no_nodes(_role: Role) -> Sequence[Node]:
    return ()


class Context(Struct, frozen=True):
    """A request with what governs it.

    Attributes:
        request: the request.
        policy: the policy in force.
        governor: what governs the job; in outlines where there are `misfits` or `trouble`.
        mode: the mode in force.
        strategy: the one that decides, None when none is called.
        misfits: why the object is not read: a limit that it is beyond, or members of a wrong type.
        trouble: one sentence about what cannot be read of the cluster, "" when everything can.
        nodes: yields the nodes of a role, each read as it is taken.
        alone: the context of a JobSet if it had no TrainJob; None where it has none.
    """

    request: Request
    policy: Policy
    governor: Governor
    mode: Mode
    strategy: Registered | None = None
    misfits: Sequence[Finding] = ()
    trouble: str = ""
    nodes: Nodes = _no_nodes
    alone: Context | None = None

    def job(self, changes: Changes, governor: Governor) -> Job:
        """Return the plan: the job as rules and strategies see it.

        Args:
            changes: of the request's object.
            governor: that of this context, or a copy of it.
        """
        return Job(
            kind="TrainJob" if self.request.kind == "TrainJob" else "JobSet",
            changes=changes,
            namespace=self.request.namespace,
            runtime=governor.runtime,
            owner=governor.owner,
            claim_devices=governor.claim_devices,
            settings=self.policy.framework(governor.framework).settings,
            supply=governor.supply,
            roles=self.policy.roles,
            runtime_open=governor.runtime_open,
            identify=program_kinds.identify,
        )


def of(request: Request, policy: Policy, governor: Governor, strategy: Registered | None = None) -> Context:
    """Return the context of a request whose governor is known."""
    mode = policy.mode_of(governor.granted, governor.namespace_label, governor.chosen)
    return Context(request, policy, governor, mode, strategy)


def read(request: Request, cluster: readers.ClusterReader, policy: Policy) -> Context:
    """Return the context of a request to create a job.

    A document beyond its budget is not read, whether it is the job or something that governs it.

    Raises:
        NotCached: the reader has to fetch something first.
    """
    beyond = None
    if request.extent is None or not request.extent.fits(policy.budget):
        beyond = budgets.check(request.document, policy.budget)
    if beyond is None:
        try:
            return _read(request, documents.Measured(cluster, policy.budget), policy)
        except BeyondError as error:
            beyond = error.told
    return structs.replace(of(request, policy, governors.outline(request, cluster)), misfits=(beyond,))


def _read(request: Request, cluster: documents.Measured, policy: Policy) -> Context:
    misfits = decoding.check(request.document, request.kind)
    try:
        found = governors.outline(request, cluster) if misfits else governors.find(request, cluster, policy.profiles)
        context = of(request, policy, found)
        if context.mode is Mode.OFF:
            return context
        if not misfits:
            found = found.with_supply(supply_lookup.find(request, found, policy, cluster))
    except (readers.SnapshotInvalid, UnreadableError) as error:
        return structs.replace(of(request, policy, governors.outline(request, cluster)), trouble=str(error))
    strategy = policy.registry.get(found.framework)
    nodes = partial(documents.nodes, cluster)
    context = structs.replace(context, governor=found, strategy=strategy, misfits=misfits, nodes=nodes)
    if found.owner is None or misfits:
        return context
    own = found.alone
    alone = structs.replace(context, governor=own, strategy=policy.registry.get(own.framework))
    return structs.replace(context, alone=alone)
