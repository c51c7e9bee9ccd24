"""Checks which namespaces the selectors of the webhook entries match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.webhook.doctor import diagnoses, selectors
from muster.webhook.doctor.checks import webhooks
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Document, Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECK", "judge", "look", "needs"]

CHECK = "namespaces"
_SYSTEM = ("kube-system", "kube-public", "kube-node-lease")


def needs(options: Options) -> tuple[Need, ...]:
    """Return the permissions to read the webhook entries and all namespaces."""
    return (*webhooks.needs(options), Need("list", "namespaces"))


async def look(installation: Installation) -> list[Diagnosis]:
    """Match the selectors of all entries with the first 500 namespaces.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    return judge(
        await webhooks.all_of(installation),
        await installation.list("/api/v1/namespaces"),
        installation.options.namespace,
    )


def judge(live: Iterable[tuple[str, Document]], namespaces: Sequence[Document], own: str) -> list[Diagnosis]:
    """Report entries that match no namespace, or match Muster's own."""
    labels = {str(each["metadata"]["name"]): each["metadata"].get("labels") or {} for each in namespaces}
    work = {name for name in labels if name not in {own, *_SYSTEM}}
    out: list[Diagnosis] = []
    left = set(work)
    for title, entry in live:
        selector = entry.get("namespaceSelector")
        taken = {name for name in labels if selectors.selects(selector, labels[name])}
        left &= taken
        if work and not taken & work:
            what = f"{title}: its namespaceSelector matches no namespace, so nothing is sent to Muster"
            out.append(diagnoses.error(CHECK, what, "set it as in manifests/base, or add the labels to the namespaces"))
        elif own in taken:
            what = f"{title}: its namespaceSelector matches {own}, where Muster must start without its own webhooks"
            out.append(diagnoses.warning(CHECK, what, f"exclude {own} and kube-system, as manifests/base does"))
    if out or not work:
        return out
    outside = sorted(work - left)
    if not outside:
        return [diagnoses.ok(CHECK, f"all entries apply in all {len(work)} namespaces of users")]
    named = ", ".join(outside[:5]) + (f" and {len(outside) - 5} more" if len(outside) > 5 else "")
    what = f"not all entries apply in {named}: jobs there are not corrected, or not refused"
    return [
        diagnoses.warning(CHECK, what, "correct the namespaceSelector of the webhook entries, if this is not intended")
    ]
