"""The fixture of the comparisons: an example is applied once, then looked at from several sides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.suites.differential import stories
from e2e.suites.differential.stories import Story
from e2e.suites.support.installations import Installation
from e2e.suites.support.kubectls import Kubectl


@pytest.fixture(scope="module")
def story(
    request: pytest.FixtureRequest,
    kubectl: Kubectl,
    installation: Installation,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    """The example that the test is parametrized with, in the cluster."""
    with stories.tell(request.param, kubectl, installation, tmp_path_factory.mktemp("offline")) as told:
        yield told
