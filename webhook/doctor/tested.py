"""The versions that Muster was tested with, and how versions are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster.strategies import upstream
from muster.strategies.documents import names

__all__ = ["CONTROLLERS", "KUBERNETES", "SUITES", "TESTED", "Controller", "minor"]

KUBERNETES = "v1.36.3"
SUITES = "run the suites against a cluster like this one (docs/testing.md) before you rely on it"
"""What to do about a version that Muster was not tested with."""
_NUMBER = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller that Muster works with.

    Attributes:
        name: for people.
        tested: the version that Muster was tested with, as `e2e/binaries/kubernetes/go.mod` pins it.
        served: path of the API version that Muster reads, and the resource in it.
        image: the last part of the name of its image.
    """

    name: str
    tested: str
    served: tuple[str, str]
    image: str


CONTROLLERS = (
    Controller(
        "Trainer",
        f"v{upstream.shipped('trainer')}",
        (f"/apis/{names.TRAINER_API_VERSION}", "trainjobs"),
        "trainer-controller-manager",
    ),
    Controller("JobSet", f"v{upstream.shipped('jobset')}", (f"/apis/{names.JOBSET_API_VERSION}", "jobsets"), "jobset"),
)
TESTED: Mapping[str, str] = {"Kubernetes": KUBERNETES, **{each.name: each.tested for each in CONTROLLERS}}
"""The version of Kubernetes in the suites."""


def minor(version: str) -> tuple[int, int] | None:
    """Return major and minor number of a version or tag, None when it is not a version."""
    found = _NUMBER.match(version)
    return (int(found[1]), int(found[2])) if found else None
