"""Whether the entries apply where people work: which namespaces their selectors take and leave out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from webhook.doctor import diagnoses, selectors
from webhook.doctor.checks import webhooks
from webhook.doctor.diagnoses import Diagnosis
from webhook.doctor.installations import Document, Installation, Options
from webhook.doctor.permissions import Need

__all__ = ["CHECK", "judge", "look", "needs"]

CHECK = "namespaces"
_SYSTEM = ("kube-system", "kube-public", "kube-node-lease")


def needs(options: Options) -> tuple[Need, ...]:
    """To read the entries and all namespaces with their labels."""
    return (*webhooks.needs(options), Need("list", "namespaces"))


async def look(installation: Installation) -> list[Diagnosis]:
    """Match the selectors of all entries with the namespaces, the first 500 of them.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    return judge(
        await webhooks.all_of(installation),
        await installation.list("/api/v1/namespaces"),
        installation.options.namespace,
    )


def judge(live: Iterable[tuple[str, Document]], namespaces: Sequence[Document], own: str) -> list[Diagnosis]:
    """Say which entries take no namespace, and which take Muster's own."""
    labels = {str(each["metadata"]["name"]): each["metadata"].get("labels") or {} for each in namespaces}
    work = {name for name in labels if name not in {own, *_SYSTEM}}
    out: list[Diagnosis] = []
    left = set(work)
    for title, entry in live:
        selector = entry.get("namespaceSelector")
        taken = {name for name in labels if selectors.selects(selector, labels[name])}
        left &= taken
        if work and not taken & work:
            what = f"{title}: its namespaceSelector leaves out every namespace, so nothing is sent to Muster"
            out.append(diagnoses.error(CHECK, what, "set it as in manifests/base, or label the namespaces it asks for"))
        elif own in taken:
            what = f"{title}: its namespaceSelector takes {own}, where Muster must come up without itself"
            out.append(diagnoses.warning(CHECK, what, f"leave out {own} and kube-system, as manifests/base does"))
    if out or not work:
        return out
    outside = sorted(work - left)
    if not outside:
        return [diagnoses.ok(CHECK, f"all entries apply in all {len(work)} namespaces of users")]
    named = ", ".join(outside[:5]) + (f" and {len(outside) - 5} more" if len(outside) > 5 else "")
    what = f"not all entries apply in {named}: jobs there are not corrected, or not refused"
    return [diagnoses.warning(CHECK, what, "see the namespaceSelector of the webhook entries, if this is not wanted")]
