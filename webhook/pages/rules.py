"""The page of one rule: what it means and why, from the catalogue of which `muster rule` is made too."""

from __future__ import annotations

from collections.abc import Sequence

from muster.webhook import catalogue
from muster.webhook.pages import asked, layouts
from muster.webhook.pages.markup import Child, element
from muster.webhook.pages.shelves import GoneError

__all__ = ["page"]

_LONGEST = 100


def page(rule_id: str, logs: Sequence[str]) -> bytes:
    """Return the page of a rule.

    Args:
        rule_id: the id, as records have it.
        logs: the paths of the logs.

    Raises:
        GoneError: the catalogue does not have the id.
    """
    found = catalogue.find(rule_id) if len(rule_id) <= _LONGEST else None
    if found is None:
        raise GoneError(_unknown(rule_id))
    rule, _ = found
    decisions = element("a", "All decisions with this rule", href=asked.query(rule=asked.literal(rule_id)))
    needs = f"For example, with {rule.needs}" if rule.needs else "For example"
    main = [
        element("h1", rule.title),
        element("p", element("code", rule_id), f": {', '.join(rule.kinds)}", class_="lead"),
        element("p", rule.why, class_="reason"),
        _example(needs, rule.wrong),
        _example("Instead", rule.right),
        element("p", f"Source: {rule.source}.", class_="quiet"),
        element("nav", decisions, aria_label="Onwards", class_="paging"),
    ]
    return layouts.document(rule_id, main, logs)


def _example(title: str, text: str) -> Child:
    return element("section", element("h2", title), element("pre", text)) if text else None


def _unknown(rule_id: str) -> str:
    alike = catalogue.closest(rule_id)
    meant = f"; did you mean {', '.join(alike)}" if alike else "; a strategy of another package explains its own rules"
    return f"{rule_id[:_LONGEST]!r} is not a rule of this version of Muster{meant}"
