"""Fixtures of the rights: a test that fails leaves no account that lacks something to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from e2e.suites.rights import accounts
from e2e.suites.rights.accounts import Account
from e2e.suites.support import spaces
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare

Begin = Callable[[Account, Mapping[str, Any]], Spare]


@pytest.fixture(scope="module")
def home(kubectl: Kubectl) -> Iterator[Space]:
    """A namespace for all tests of a module, in which its account is at home."""
    made = Space(spaces.named("rights"), kubectl).make()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def lent(request: pytest.FixtureRequest, kubectl: Kubectl, home: Space) -> Iterator[Account]:
    """An account with the roles of the module's `FILES`."""
    with accounts.made(kubectl, home, *request.module.FILES) as made:
        yield made


@pytest.fixture
def account(lent: Account) -> Iterator[Account]:
    """The module's account; what a test takes away is given back at its end."""
    yield lent
    lent.give_back()


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begin]:
    """Start a Muster with an account's rights that ends with the module; it is not waited for."""
    with _beginning(tmp_path_factory) as begun:
        yield begun


@pytest.fixture
def begin_anew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begin]:
    """Start a Muster that ends with the test."""
    with _beginning(tmp_path_factory) as begun:
        yield begun


@contextmanager
def _beginning(folders: pytest.TempPathFactory) -> Iterator[Begin]:
    with ExitStack() as stack:

        def begun(account: Account, config: Mapping[str, Any]) -> Spare:
            return stack.enter_context(Spare(folders.mktemp("muster"), account.kubeconfig(), config))

        yield begun
