"""Checks that the API server calls Muster: each webhook entry must be as in the manifests of this version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib import parse

from muster.webhook.doctor import diagnoses
from muster.webhook.doctor.diagnoses import Diagnosis, Severity
from muster.webhook.doctor.expectations import KINDS
from muster.webhook.doctor.installations import Document, Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECK", "ELSEWHERE", "all_of", "is_elsewhere", "judge", "look", "named", "needs", "url_of"]

CHECK = "webhooks"
ELSEWHERE = "the webhook entries have a URL, so Muster is not behind a Service of this cluster"
GROUP = "admissionregistration.k8s.io"
_AGAIN = "install this version again, to set the webhook entries (docs/installation.md)"
_DOMAIN = ".muster.dev"
_FIELDS: Mapping[str, tuple[Any, str]] = {
    "matchPolicy": ("Equivalent", "requests in another version of the kind are not sent to Muster"),
    "reinvocationPolicy": ("Never", "Muster does not see changes that other webhooks make later"),
    "sideEffects": (None, "dry runs may be refused"),
}
"""Fields that should be as in the manifests: the default of the API, and the effect of another value."""
_POLICIES = {
    "CREATE": "while Muster is down, jobs are created without corrections",
    "UPDATE": "while Muster is down, jobs cannot be suspended or resumed",
}


def needs(options: Options) -> tuple[Need, ...]:
    """Return the permissions to read both webhook configurations."""
    return tuple(Need("get", f"{kind.lower()}s", GROUP, name=options.name) for kind in KINDS)


async def look(installation: Installation) -> list[Diagnosis]:
    """Compare both configurations with the manifests.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    patience = (await installation.configured()).server.request_timeout
    out: list[Diagnosis] = []
    for kind in KINDS:
        live = await installation.webhooks(kind)
        out += judge(kind, live, installation, patience)
    if not out:
        count = sum(len(entries) for entries in installation.base.entries.values())
        out.append(diagnoses.ok(CHECK, f"all {count} entries of both webhook configurations are as in the manifests"))
    return out


async def all_of(installation: Installation) -> list[tuple[str, Document]]:
    """Return all live entries of Muster's configurations, each with a name for people.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    found = [(kind, entry) for kind in KINDS for entry in named(await installation.webhooks(kind)).values()]
    return [(_title(kind, str(entry.get("name"))), entry) for kind, entry in found]


def named(configuration: Document | None) -> dict[str, Document]:
    """Return the entries of a webhook configuration by name."""
    entries = (configuration or {}).get("webhooks") or ()
    return {str(each.get("name")): each for each in entries if isinstance(each, Mapping)}


def url_of(entry: Document) -> str:
    """Return the URL that the API server calls for an entry, "" when it calls a Service."""
    return str((entry.get("clientConfig") or {}).get("url") or "")


async def is_elsewhere(installation: Installation) -> bool:
    """Whether all webhook entries have URLs.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    live = await all_of(installation)
    return bool(live) and all(url_of(entry) for _, entry in live)


def judge(kind: str, live: Document | None, installation: Installation, patience: float) -> Iterator[Diagnosis]:
    """Yield diagnoses of one configuration; `patience` is Muster's own time-out in seconds."""
    if live is None:
        what = "jobs are not corrected" if kind == KINDS[0] else "jobs are not refused"
        yield diagnoses.error(CHECK, f"{kind} {installation.options.name} does not exist, so {what}", _AGAIN)
        return
    entries, expected = named(live), installation.base.entries[kind]
    for name, wanted in expected.items():
        title = _title(kind, name)
        if name not in entries:
            yield diagnoses.error(
                CHECK, f"{title} is missing, so the API server does not call Muster for {_asked(wanted)}", _AGAIN
            )
            continue
        for severity, problem in _problems(entries[name], wanted, installation.options, patience):
            yield Diagnosis(CHECK, severity, f"{title}: {problem}", _AGAIN)
    for name in entries.keys() - expected.keys():
        if name.endswith(_DOMAIN):
            what = f"{_title(kind, name)} is not an entry of this version"
            yield diagnoses.warning(CHECK, what, "use the `muster` of the version that is installed, or install again")


def _problems(live: Document, wanted: Document, options: Options, patience: float) -> Iterator[tuple[Severity, str]]:
    (operation,) = wanted["rules"][0]["operations"]
    if not _covers(live.get("rules") or (), wanted["rules"][0]):
        yield Severity.ERROR, f"its rules do not include {_asked(wanted)}"
    yield from ((Severity.ERROR, problem) for problem in _misdirected(live, wanted, options))
    if live.get("failurePolicy", "Fail") != wanted["failurePolicy"]:
        yield Severity.WARNING, f"failurePolicy is {live.get('failurePolicy', 'Fail')}: {_POLICIES[operation]}"
    seconds = live.get("timeoutSeconds", 10)
    if isinstance(seconds, int) and seconds <= patience:
        problem = f"timeoutSeconds is {seconds}, not above Muster's requestTimeout ({patience:g})"
        yield Severity.WARNING, f"{problem}, so users do not see its message"
    for field, (default, consequence) in _FIELDS.items():
        if field in wanted and live.get(field, default) != wanted[field]:
            yield Severity.WARNING, f"{field} is {live.get(field, default)}: {consequence}"
    if not set(wanted["admissionReviewVersions"]) <= set(live.get("admissionReviewVersions") or ()):
        yield Severity.ERROR, "admissionReviewVersions lacks v1, which Muster needs"
    yield from _conditions(live, wanted)


def _conditions(live: Document, wanted: Document) -> Iterator[tuple[Severity, str]]:
    if live.get("objectSelector"):
        yield Severity.WARNING, "objectSelector excludes jobs by labels, which the authors of jobs choose"
    present, expected = _expressions(live), _expressions(wanted)
    for name, expression in expected.items():
        if present.get(name) != expression:
            state = "is changed" if name in present else "is missing"
            yield (
                Severity.WARNING,
                f"matchConditions[{name}] {state}, so Muster is called when it need not or must not be",
            )
    for name in present.keys() - expected.keys():
        yield Severity.WARNING, f"matchConditions[{name}] is not in the manifests, and excludes some jobs"


def _expressions(entry: Document) -> dict[str, str]:
    found = entry.get("matchConditions") or ()
    return {str(each.get("name")): " ".join(str(each.get("expression")).split()) for each in found}


def _misdirected(live: Document, wanted: Document, options: Options) -> Iterator[str]:
    """Yield why a call would not reach Muster's path for this entry."""
    expected = wanted["clientConfig"]["service"]
    url, service = url_of(live), (live.get("clientConfig") or {}).get("service") or {}
    path = parse.urlsplit(url).path if url else str(service.get("path", ""))
    if path != expected["path"]:
        yield f"it calls the path {path or '/'}, but Muster serves this at {expected['path']}"
    if not url:
        called = f"{service.get('namespace')}/{service.get('name')}"
        if called != f"{options.namespace}/{options.name}":
            yield f"it calls the Service {called}, not {options.namespace}/{options.name}"


def _covers(rules: Sequence[Document], wanted: Document) -> bool:
    keys = ("operations", "apiGroups", "apiVersions", "resources")
    return any(
        all("*" in (rule.get(key) or ()) or set(wanted[key]) <= set(rule.get(key) or ()) for key in keys)
        and rule.get("scope", "*") in {"*", wanted["scope"]}
        for rule in rules
    )


def _asked(wanted: Document) -> str:
    rule = wanted["rules"][0]
    return f"{rule['operations'][0]} of {rule['resources'][0]}"


def _title(kind: str, name: str) -> str:
    return f"{kind.removesuffix('WebhookConfiguration').lower()} entry {name}"
