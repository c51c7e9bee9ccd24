"""A case of the fuzzer: one review and the cluster and policy that it meets, as a file that can be run again.

JSON has numbers and strings that no Python value is written as (an integer of 5,000 digits, half a surrogate pair).
They stand in a case as the string `@@raw <JSON>@@`, and become that JSON in the bytes that are sent.
"""

from __future__ import annotations

import functools
import hashlib
import json
import marshal
import re
from dataclasses import dataclass, field
from pathlib import Path

from muster.strategies.frameworks import builtin
from muster.strategies.jobs.jobs import Settings
from muster.webhook.admission.policies import FrameworkPolicy, Mode, Policy
from tests.roles.places import ROLES
from tests.support.devices import OFFERED

__all__ = ["KINDS", "Case", "body_of", "copied", "load", "raw", "save"]

KINDS = ("TrainJob", "JobSet")
_RAW = re.compile(r'"@@raw ((?:[^"\\@]|\\.)*)@@"')


@dataclass
class Case:
    """One case.

    Attributes:
        kind: the path that is asked, TrainJob or JobSet.
        review: the AdmissionReview, or a string: the body as it is sent.
        cluster: the documents that Muster can read.
        policy: settings by name, see `policy_of`.
        planted: secrets that stand in the documents, each with the way it was planted.
        mode: the mode that the namespace's label puts in force, where that is sure.
        how: what was done, in order.
    """

    kind: str
    review: dict | str
    cluster: list = field(default_factory=list)
    policy: dict = field(default_factory=dict)
    planted: dict = field(default_factory=dict)
    mode: str | None = None
    how: list = field(default_factory=list)

    @property
    def name(self):
        """A name by the content."""
        return hashlib.sha256(_written(vars(self)).encode()).hexdigest()[:12]


def raw(text):
    """A value that is sent as this JSON text; it may not contain `@`."""
    return f"@@raw {text}@@"


def body_of(review):
    """The bytes of a review or of a document."""
    text = review if isinstance(review, str) else _written(review)
    if "@@raw " in text:
        text = _RAW.sub(lambda match: json.loads(f'"{match.group(1)}"'), text)
    return text.encode("utf-8", "surrogatepass")


def copied(value):
    """A deep copy of a JSON value, however deep; ten times faster than `copy.deepcopy`."""
    return marshal.loads(marshal.dumps(value, 2))  # noqa: S302 - our own bytes


def _written(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def save(case, folder):
    """Write a case into a folder; return the file."""
    path = Path(folder) / f"{case.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_written(vars(case)))
    return path


def load(path):
    """Read a case."""
    return Case(**json.loads(Path(path).read_text()))


def policy_of(wanted):
    """The policy of a case: `mode`, `failure`, `profiles`, `roles`, `modes` by framework, `profile` by framework."""
    return _policy(json.dumps(wanted, sort_keys=True))


@functools.lru_cache(maxsize=512)
def _policy(text):
    wanted = json.loads(text)
    modes, chosen = wanted.get("modes", {}), wanted.get("profile", {})
    frameworks = {
        name: FrameworkPolicy(
            Mode(modes[name]) if name in modes else None,
            Settings(profile=chosen[name]) if name in chosen else Settings(),
        )
        for name in {*modes, *chosen}
    }
    return Policy(
        registry=_registry(),
        mode=Mode(wanted.get("mode", "enforce")),
        frameworks=frameworks,
        on_plugin_failure=wanted.get("failure", "deny"),
        profiles={each.name: each for each in OFFERED} if wanted.get("profiles") else {},
        roles=ROLES if wanted.get("roles") else {},
    )


@functools.cache
def _registry():
    return builtin.load(plugins=False)
