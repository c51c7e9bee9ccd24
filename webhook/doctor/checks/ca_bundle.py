"""Checks that the API server can trust Muster: `caBundle` of each entry, and how long it is still valid."""

from __future__ import annotations

import base64
import binascii
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from muster.certs import chains, errors, expiries, pems
from muster.webhook.doctor import diagnoses
from muster.webhook.doctor.checks import webhooks
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Document, Installation

__all__ = ["CHECK", "SOON", "bundle", "judge", "look"]

CHECK = "ca-bundle"
SOON = timedelta(days=30)
"""Seconds before a CA expires when to warn; a sixth of the lifetime when that is shorter than half a year."""
_AGAIN = "install again, to renew it and set caBundle (docs/installation.md)"


async def look(installation: Installation) -> list[Diagnosis]:
    """Read every bundle.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    return judge(await webhooks.all_of(installation), expiries.utc_now())


def judge(live: Iterable[tuple[str, Document]], now: datetime) -> list[Diagnosis]:
    """Return one diagnosis for each different bundle, for all entries that have it."""
    titles: defaultdict[str, list[str]] = defaultdict(list)
    for title, entry in live:
        titles[str((entry.get("clientConfig") or {}).get("caBundle") or "")].append(title)
    out = [finding for text, named in titles.items() for finding in _judged(text, named, now)]
    if len(titles) > 1:
        others = [title for group in sorted(titles.values(), key=len)[:-1] for title in group]
        what = f"not all entries have the same bundle of CAs: {', '.join(others)} differ from the rest"
        out.append(diagnoses.warning(CHECK, what, "install again, to set the same bundle everywhere"))
    return out


def bundle(entry: Document) -> bytes:
    """Return the PEM text of an entry's CAs.

    Raises:
        MaterialError: it is not base64.
    """
    text = str((entry.get("clientConfig") or {}).get("caBundle") or "")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise errors.MaterialError("caBundle", "is not base64", "set it again") from error


def _judged(text: str, titles: Sequence[str], now: datetime) -> Iterator[Diagnosis]:
    where = titles[0] if len(titles) == 1 else f"{titles[0]} and {len(titles) - 1} more"
    if not text:
        what = f"{where}: caBundle is empty, so the API server does not trust any certificate of Muster"
        yield diagnoses.error(CHECK, what, _AGAIN)
        return
    try:
        found = pems.certificates(bundle({"clientConfig": {"caBundle": text}}), "caBundle")
    except errors.MaterialError as error:
        yield diagnoses.error(CHECK, f"{where}: caBundle {error.problem}", _AGAIN)
        return
    windows = [chains.window(certificate) for certificate in found]
    valid = [window for window in windows if window.covers(now)]
    if not valid:
        newest = max(windows, key=lambda window: window.not_after)
        state = f"expired on {newest.not_after:%Y-%m-%d %H:%M} UTC"
        if newest.not_before > now:
            state = f"are not valid before {newest.not_before:%Y-%m-%d %H:%M} UTC"
        yield diagnoses.error(CHECK, f"{where}: the CAs in caBundle {state}, so no job can be created", _AGAIN)
        return
    last = max(valid, key=lambda window: window.not_after)
    left = f"until {last.not_after:%Y-%m-%d %H:%M} UTC, {_days(last.remaining(now))}"
    if last.remaining(now) < _soon(last):
        yield diagnoses.warning(CHECK, f"{where}: the newest CA in caBundle is valid only {left}", _AGAIN)
    else:
        kept = f"{len(found)} CA{'s' if len(found) > 1 else ''}, the newest valid"
        yield diagnoses.ok(CHECK, f"caBundle of {len(titles)} entries: {kept} {left}")


def _soon(window: expiries.Window) -> float:
    return min(SOON, (window.not_after - window.not_before) / 6).total_seconds()


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.0f} days" if seconds >= 2 * 86400 else f"{seconds / 3600:.1f} hours"
