"""The page of the audit log asks a real API server who a caller is and what they may, with the shipped rights alone."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from e2e.cluster import ports
from e2e.cluster.places import REPOSITORY
from e2e.suites.support import spaces, spares
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

pytestmark = pytest.mark.xdist_group("rights to read the audit log")

_GROUP = "rbac.authorization.k8s.io"
_RIGHTS = REPOSITORY / "manifests" / "audit-page" / "rbac.yaml"


class Page:
    """`muster audit serve --auth cluster` as a process on this machine.

    Args:
        url: where it answers.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        # It makes its certificate itself, and nobody was told its CA.
        self._trust = ssl.create_default_context()
        self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE

    def ask(self, token: str = "") -> tuple[int, str]:
        """Return status and text of the list for a token, "" for none."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(self._url, headers=headers)  # noqa: S310 - always https
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._trust) as answer:  # noqa: S310 - as above
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()


@pytest.fixture(scope="module")
def home(kubectl: Kubectl) -> Iterator[Space]:
    """A namespace with the page's account and its roles, a reader and somebody else."""
    made = Space(spaces.named("audit-page"), kubectl).make()
    roles = list(_roles(made.name))
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": made.name}}
        for name in ("page", "reader", "nobody")
    ]
    kubectl.apply(*accounts, *roles).expect()
    yield made
    for kind in ("clusterrolebinding", "clusterrole"):
        kubectl.delete(kind, made.name)
    made.remove()


def _roles(namespace: str) -> Iterator[Mapping[str, Any]]:
    """The shipped roles, bound to the accounts of the namespace."""
    for role in (each for each in yaml.safe_load_all(_RIGHTS.read_text()) if "rules" in each):
        kind, is_wide = role["kind"], role["kind"] == "ClusterRole"
        metadata = {"name": namespace, **({} if is_wide else {"namespace": namespace})}
        account = {"kind": "ServiceAccount", "name": "page" if is_wide else "reader", "namespace": namespace}
        yield {**role, "metadata": metadata}
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": namespace},
            "subjects": [account],
        }


@pytest.fixture(scope="module")
def page(kubectl: Kubectl, home: Space, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page, with an empty log and the rights of the account `page`."""
    folder = tmp_path_factory.mktemp("audit-page")
    (folder / "kubeconfig").write_text(json.dumps(spares.kubeconfig(kubectl, {"token": token(kubectl, home, "page")})))
    (folder / "audit.log").touch()
    (port,) = ports.choose(1)
    words = ["audit", "serve", str(folder / "audit.log"), "--auth", "cluster", "--namespace", home.name]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "muster",
                *words,
                "--port",
                str(port),
                "--kubeconfig",
                str(folder / "kubeconfig"),
            ],
            cwd=REPOSITORY,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_SERVICE_")},
        )
    try:
        made = Page(f"https://127.0.0.1:{port}/")
        until("the page to answer", lambda: made.ask()[0] == 401)
        yield made
    finally:
        process.kill()
        process.wait()


def token(kubectl: Kubectl, home: Space, name: str, *options: str) -> str:
    """Return a token of an account."""
    return kubectl.run("create", "token", name, "-n", home.name, *options).expect().out.strip()


def test_the_account_that_may_read_the_log_reads_it(page: Page, kubectl: Kubectl, home: Space) -> None:
    reader = token(kubectl, home, "reader")
    # RBAC takes a moment to know a role; until then a verdict of ten seconds says no.
    until("the reader to be let in", lambda: page.ask(reader)[0] == 200, 40)
    assert "the logs are empty" in page.ask(reader)[1]


def test_another_account_is_told_what_it_lacks(page: Page, kubectl: Kubectl, home: Space) -> None:
    status, text = page.ask(token(kubectl, home, "nobody"))
    assert (status, f"get on auditlogs.muster.dev in namespace {home.name}" in text) == (403, True)


def test_a_token_for_somebody_else_and_one_that_is_none_are_not_taken(
    page: Page, kubectl: Kubectl, home: Space
) -> None:
    for given in ("", "garbage", token(kubectl, home, "reader", "--audience=another.example")):
        assert page.ask(given)[0] == 401


@pytest.mark.thorough  # a verdict is kept for ten seconds
def test_the_token_of_an_account_that_is_gone_works_no_longer(page: Page, kubectl: Kubectl, home: Space) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "leaves", "namespace": home.name}}
    kubectl.apply(account).expect()
    given = token(kubectl, home, "leaves")
    assert page.ask(given)[0] == 403
    kubectl.delete("serviceaccount", "leaves", home.name)
    until("the token to be refused", lambda: page.ask(given)[0] == 401)
