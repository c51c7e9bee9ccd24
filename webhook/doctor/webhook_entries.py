"""Checks of the webhook entries: as in the manifests, for all namespaces, and with the CAs of Muster's certificate.

Label selectors are matched as the API server does (apimachinery `pkg/apis/meta/v1`, LabelSelector).
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from urllib import parse

from muster.certs import chains, errors, expiries, pems, probes
from muster.strategies.documents import decoding, model
from muster.strategies.documents.decoding import items, mapping, member, sequence
from muster.webhook.doctor.diagnoses import Diagnosis, Severity, error, ok, unknown, warning
from muster.webhook.doctor.expected_state import KINDS
from muster.webhook.doctor.live_installation import Document, Installation, Options

__all__ = [
    "ELSEWHERE",
    "GROUP",
    "all_of",
    "ca_bundle",
    "certificate",
    "is_elsewhere",
    "judge_bundles",
    "namespaces",
    "selects",
    "webhooks",
]

ELSEWHERE = "the webhook entries have a URL, so Muster is not behind a Service of this cluster"
GROUP = "admissionregistration.k8s.io"
_AGAIN = "install this version again, to set the webhook entries (docs/install.md)"
_RENEW = "install again, to renew it and set caBundle (docs/install.md)"
_SYSTEM = ("kube-system", "kube-public", "kube-node-lease")
_SOON = timedelta(days=30)  # a sixth of the lifetime when that is shorter than half a year
_FIELDS: Mapping[str, tuple[str | None, str]] = {
    "matchPolicy": ("Equivalent", "requests in another version of the kind are not sent to Muster"),
    "reinvocationPolicy": ("Never", "Muster does not see changes that other webhooks make later"),
    "sideEffects": (None, "dry runs may be refused"),
}
"""Fields that should be as in the manifests: the default of the API, and the effect of another value."""
_POLICIES = {
    "CREATE": "while Muster is down, jobs are created without corrections",
    "UPDATE": "while Muster is down, jobs cannot be suspended or resumed",
}


async def all_of(installation: Installation) -> list[tuple[str, Document]]:
    """Return all live entries of Muster's configurations, each with a name for people.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    found = [(kind, await _configuration(installation, kind)) for kind in KINDS]
    return [(_title(kind, str(each.get("name"))), each) for kind, live in found for each in items(live, "webhooks")]


async def is_elsewhere(installation: Installation) -> bool:
    """Whether all webhook entries have URLs."""
    live = await all_of(installation)
    return bool(live) and all(_url(entry) for _, entry in live)


def selects(selector: object, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches these labels; an empty one, or none, matches everything."""
    read = decoding.read(mapping(selector), model.Selector)
    equal = all(labels.get(key) == value for key, value in read.match_labels.items())
    return equal and all(_holds(term, labels) for term in read.match_expressions)


def _holds(term: model.Expression, labels: Mapping[str, str]) -> bool:
    has, is_in = term.key in labels, labels.get(term.key) in term.values
    return {"In": is_in, "NotIn": not is_in, "Exists": has, "DoesNotExist": not has}.get(term.operator, False)


async def webhooks(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Compare both configurations with the manifests."""
    patience, is_right = (await installation.configured()).server.request_timeout, True
    for kind in KINDS:
        for found in _judged(kind, await _configuration(installation, kind), installation, patience):
            is_right = False
            yield found
    if is_right:
        count = sum(map(len, installation.base.entries.values()))
        yield ok(f"all {count} entries of both webhook configurations are as in the manifests")


async def _configuration(installation: Installation, kind: str) -> Document | None:
    return await installation.get(f"/apis/{GROUP}/v1/{kind.lower()}s/{installation.options.name}")


def _judged(kind: str, live: Document | None, installation: Installation, patience: float) -> Iterator[Diagnosis]:
    """Yield diagnoses of one configuration; `patience` is Muster's own time-out in seconds."""
    if live is None:
        what = "jobs are not corrected" if kind == KINDS[0] else "jobs are not refused"
        yield error(f"{kind} {installation.options.name} does not exist, so {what}", _AGAIN)
        return
    entries, expected = (
        {str(each.get("name")): each for each in items(live, "webhooks")},
        installation.base.entries[kind],
    )
    for name, wanted in expected.items():
        title = _title(kind, name)
        if name not in entries:
            yield error(f"{title} is missing, so the API server does not call Muster for {_asked(wanted)}", _AGAIN)
            continue
        for severity, problem in _problems(entries[name], wanted, installation.options, patience):
            yield Diagnosis(severity, f"{title}: {problem}", _AGAIN)
    for name in entries.keys() - expected.keys():
        if name.endswith(".muster.dev"):
            what = f"{_title(kind, name)} is not an entry of this version"
            yield warning(what, "use the `muster` of the version that is installed, or install again")


def _problems(live: Document, wanted: Document, options: Options, patience: float) -> Iterator[tuple[Severity, str]]:
    (operation,) = wanted["rules"][0]["operations"]
    if not _covers(items(live, "rules"), wanted["rules"][0]):
        yield Severity.ERROR, f"its rules do not include {_asked(wanted)}"
    yield from ((Severity.ERROR, problem) for problem in _misdirected(live, wanted, options))
    policy, seconds = live.get("failurePolicy", "Fail"), live.get("timeoutSeconds", 10)
    if policy != wanted["failurePolicy"]:
        yield Severity.WARNING, f"failurePolicy is {policy}: {_POLICIES[operation]}"
    if type(seconds) is int and seconds <= patience:
        problem = f"timeoutSeconds is {seconds}, not above Muster's requestTimeout ({patience:g})"
        yield Severity.WARNING, f"{problem}, so users do not see its message"
    for field, (default, consequence) in _FIELDS.items():
        if field in wanted and live.get(field, default) != wanted[field]:
            yield Severity.WARNING, f"{field} is {live.get(field, default)}: {consequence}"
    if not set(wanted["admissionReviewVersions"]) <= set(sequence(live.get("admissionReviewVersions"))):
        yield Severity.ERROR, "admissionReviewVersions lacks v1, which Muster needs"
    if live.get("objectSelector"):
        yield Severity.WARNING, "objectSelector excludes jobs by labels, which the authors of jobs choose"
    yield from ((Severity.WARNING, problem) for problem in _differences(_conditions(live), _conditions(wanted)))


def _differences(present: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[str]:
    for name, expression in expected.items():
        if present.get(name) != expression:
            problem = f"matchConditions[{name}] {'is changed' if name in present else 'is missing'}"
            yield f"{problem}, so Muster is called when it need not or must not be"
    for name in present.keys() - expected.keys():
        yield f"matchConditions[{name}] is not in the manifests, and excludes some jobs"


def _conditions(entry: Document) -> dict[str, str]:
    found = items(entry, "matchConditions")
    return {str(each.get("name")): " ".join(str(each.get("expression")).split()) for each in found}


def _misdirected(live: Document, wanted: Document, options: Options) -> Iterator[str]:
    """Yield why a call would not reach Muster's path for this entry."""
    expected, url, service = wanted["clientConfig"]["service"], _url(live), member(live, "clientConfig", "service")
    path = parse.urlsplit(url).path if url else str(service.get("path", ""))
    if path != expected["path"]:
        yield f"it calls the path {path or '/'}, but Muster serves this at {expected['path']}"
    called = f"{service.get('namespace')}/{service.get('name')}"
    if not url and called != f"{options.namespace}/{options.name}":
        yield f"it calls the Service {called}, not {options.namespace}/{options.name}"


def _covers(rules: Sequence[Document], wanted: Document) -> bool:
    keys = ("operations", "apiGroups", "apiVersions", "resources")
    return any(
        all("*" in (given := sequence(rule.get(key))) or set(wanted[key]) <= set(given) for key in keys)
        and rule.get("scope", "*") in {"*", wanted["scope"]}
        for rule in rules
    )


def _asked(wanted: Document) -> str:
    rule = wanted["rules"][0]
    return f"{rule['operations'][0]} of {rule['resources'][0]}"


def _title(kind: str, name: str) -> str:
    return f"{kind.removesuffix('WebhookConfiguration').lower()} entry {name}"


def _url(entry: Document) -> str:
    """Return the URL that the API server calls for an entry, "" when it calls a Service."""
    return str(member(entry, "clientConfig").get("url") or "")


async def namespaces(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Report entries that match none of the first 500 namespaces, or match Muster's own.

    Where the configuration names namespaces, these are the ones that count.
    """
    own, is_right = installation.options.namespace, True
    found = [each["metadata"] for each in await installation.list("/api/v1/namespaces")]
    labels = {str(each["name"]): member(each, "labels") for each in found}
    named = (await installation.configured()).cluster.namespaces
    work = labels.keys() & named if named else labels.keys() - {own, *_SYSTEM}
    left = set(work)
    for title, entry in await all_of(installation):
        taken = {name for name in labels if selects(entry.get("namespaceSelector"), labels[name])}
        left &= taken
        if work and not taken & work:
            what = f"{title}: its namespaceSelector matches no namespace, so nothing is sent to Muster"
            yield error(what, "set it as in manifests/base, or add the labels to the namespaces")
        elif own in taken:
            what = f"{title}: its namespaceSelector matches {own}, where Muster must start without its own webhooks"
            yield warning(what, f"exclude {own} and kube-system, as manifests/base does")
        else:
            continue
        is_right = False
    outside = sorted(work - left)
    if not is_right or not work:
        return
    if outside:
        shown = ", ".join(outside[:5]) + (f" and {len(outside) - 5} more" if len(outside) > 5 else "")
        what = f"not all entries apply in {shown}: jobs there are not corrected, or not refused"
        yield warning(what, "correct the namespaceSelector of the webhook entries, if this is not intended")
    else:
        yield ok(f"all entries apply in all {len(work)} namespaces of users")


async def ca_bundle(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Read every bundle."""
    for each in judge_bundles(await all_of(installation), expiries.utc_now()):
        yield each


def judge_bundles(live: Iterable[tuple[str, Document]], now: datetime) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each different bundle, for all entries that have it."""
    titles: defaultdict[str, list[str]] = defaultdict(list)
    for title, entry in live:
        titles[str(member(entry, "clientConfig").get("caBundle") or "")].append(title)
    for text, named in titles.items():
        yield _bundle_judged(text, named, now)
    if len(titles) > 1:
        others = [title for group in sorted(titles.values(), key=len)[:-1] for title in group]
        what = f"not all entries have the same bundle of CAs: {', '.join(others)} differ from the rest"
        yield warning(what, "install again, to set the same bundle everywhere")


def _bundle_judged(text: str, titles: Sequence[str], now: datetime) -> Diagnosis:
    where = titles[0] if len(titles) == 1 else f"{titles[0]} and {len(titles) - 1} more"
    if not text:
        return error(f"{where}: caBundle is empty, so the API server does not trust any certificate of Muster", _RENEW)
    try:
        windows = [chains.window(each) for each in pems.certificates(_bundle(text), "caBundle")]
    except errors.MaterialError as problem:
        return error(f"{where}: caBundle {problem.problem}", _RENEW)
    valid = [window for window in windows if window.covers(now)]
    last = max(valid or windows, key=lambda window: window.not_after)
    if not valid:
        state = f"expired on {last.not_after:%Y-%m-%d %H:%M} UTC"
        if last.not_before > now:
            state = f"are not valid before {last.not_before:%Y-%m-%d %H:%M} UTC"
        return error(f"{where}: the CAs in caBundle {state}, so no job can be created", _RENEW)
    seconds = last.remaining(now)
    days = f"{seconds / 86400:.0f} days" if seconds >= 2 * 86400 else f"{seconds / 3600:.1f} hours"
    left = f"until {last.not_after:%Y-%m-%d %H:%M} UTC, {days}"
    if seconds < min(_SOON, (last.not_after - last.not_before) / 6).total_seconds():
        return warning(f"{where}: the newest CA in caBundle is valid only {left}", _RENEW)
    count = f"{len(windows)} CA{'s' if len(windows) > 1 else ''}"
    return ok(f"caBundle of {len(titles)} entries: {count}, the newest valid {left}")


def _bundle(text: str) -> bytes:
    """Return the PEM text of a caBundle.

    Raises:
        MaterialError: it is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        raise errors.MaterialError("caBundle", "is not base64", "set it again") from problem


async def certificate(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Connect to every different address with the bundle of its entry."""
    options = installation.options
    wanted: dict[tuple[str, int, str, bytes], None] = {}
    for _, entry in await all_of(installation):
        try:
            trusted = _bundle(str(member(entry, "clientConfig").get("caBundle") or ""))
        except errors.MaterialError:
            continue  # the check ca-bundle reports it
        parts = parse.urlsplit(_url(entry))
        if options.dial:
            wanted[(*options.dial, f"{options.name}.{options.namespace}.svc", trusted)] = None
        elif parts.hostname:
            wanted[parts.hostname, parts.port or 443, parts.hostname, trusted] = None
    for host, port, name, trusted in wanted:
        if trusted:
            shown = probes.dial(host, port, trusted, name, timeout=options.timeout)
            yield await _dialled(f"{host}:{port}", shown, name)


async def _dialled(where: str, shown: Awaitable[str], name: str) -> Diagnosis:
    try:
        digest = await shown
    except errors.ProbeError as problem:
        if isinstance(problem.__cause__, ssl.SSLCertVerificationError):
            what = f"the certificate at {where} does not verify against caBundle as {name}: {problem.problem}"
            return error(what, "install again, so that both match (docs/install.md)")
        return unknown(f"{where} {problem.problem}", "run this where it can be reached, or see the check probe")
    except errors.MaterialError as problem:
        return unknown(f"{where} was not dialled: caBundle {problem.problem}", "see the check ca-bundle")
    return ok(f"{where} shows a certificate that verifies against caBundle (SHA-256 {digest[:16]}…)")
