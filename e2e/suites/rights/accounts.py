"""An account for a spare Muster: the shipped roles under other names, from which one right can be taken away.

The rules are those of the manifests. What reads is allowed everywhere, as it is for Muster itself; what writes, in the
namespaces of the tests only, so that a spare changes nothing which is not theirs. A narrow account reads there only,
too, as an installation does whose configuration names namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.support import spares
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

__all__ = ["Account", "Right", "called", "made"]

Right = tuple[str, str, str]
"""Role, resource with its group, verb: a key of `tests.manifests.rights.RIGHTS`."""
Document = dict[str, Any]

_MANIFESTS = REPOSITORY / "manifests"
_GROUP = "rbac.authorization.k8s.io"
_READING = {"get", "list", "watch"}
_WIDE = {"clustertrainingruntimes.trainer.kubeflow.org", "namespaces", "nodes", "deviceclasses.resource.k8s.io"}
_NAME = "muster"


def called(right: Right) -> str:
    """Return a right in words: `create leases.coordination.k8s.io`."""
    _, resource, verb = right
    return f"{verb} {resource}"


class Account:
    """A ServiceAccount with roles of the manifests; `made` makes one and takes it away again.

    Args:
        kubectl: kubectl with the administrator's rights.
        home: its namespace, in the place of muster-system; it may write there and wherever it is let in.
        files: names of manifests, such as `rbac.yaml`.
        narrow: whether it reads what namespaces have only where it may write.
    """

    def __init__(self, kubectl: Kubectl, home: Space, files: Sequence[str], *, narrow: bool = False) -> None:
        self.home = home
        self._kubectl = kubectl
        self._spaces = [home]
        self._roles = [role for file in files for role in _shipped(file)]
        self._taken: Right | None = None
        self._everywhere = _READING if not narrow else set()

    def make(self) -> None:
        """Create it, with all its rights."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _NAME}}
        self.home.create(account).expect()
        self._apply()

    def remove(self) -> None:
        """Delete what is outside its namespace."""
        for role in self._roles:
            for kind in ("clusterrolebinding", "clusterrole"):
                self._kubectl.delete(kind, self._called(role))

    def kubeconfig(self) -> Document:
        """Return a kubeconfig with a token of it."""
        told = self._kubectl.run("create", "token", _NAME, "-n", self.home.name, "--duration=1h").expect()
        return spares.kubeconfig(self._kubectl, {"token": told.out.strip()})

    @contextmanager
    def let_in(self, space: Space) -> Iterator[None]:
        """Let it write in a further namespace while the context lasts."""
        self._spaces.append(space)
        self._apply()
        try:
            yield
        finally:
            self._spaces.remove(space)

    def take(self, right: Right) -> None:
        """Remove one right, and wait until the API server enforces that."""
        self._taken = right
        assert any(_lacks(role, right) for role in self._roles), f"no role of this account has the right {right}"
        self._apply()
        until(f"nobody to {called(right)}", lambda: not any(self.may(right, space) for space in self._spaces))

    def give_back(self) -> None:
        """Give back the removed rights, if any, and wait until the API server enforces that."""
        if (right := self._taken) is not None:
            self._taken = None
            self._apply()
            until(f"everybody to {called(right)}", lambda: all(self.may(right, space) for space in self._spaces))

    def _apply(self) -> None:
        self._kubectl.apply(*self._documents()).expect()

    def _documents(self) -> Iterator[Document]:
        for role in self._roles:
            rules = list(_rules(role, self._taken))
            if role["kind"] == "Role":
                yield from self._bound("Role", role["metadata"]["name"], rules, self.home.name)
                continue
            named = [{**rule, "resourceNames": [self.home.name]} for rule in rules if "resourceNames" in rule]
            plain = [rule for rule in rules if "resourceNames" not in rule]
            reads = [rule for rule in plain if rule["verbs"][0] in self._everywhere or _resource(rule) in _WIDE]
            writes = [rule for rule in plain if rule not in reads]
            yield from self._bound("ClusterRole", self._called(role), [*named, *reads])
            for space in self._spaces:
                yield from self._bound("Role", f"{role['metadata']['name']}-writes", writes, space.name)

    def _bound(self, kind: str, name: str, rules: list[Document], namespace: str = "") -> Iterator[Document]:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        account = {"kind": "ServiceAccount", "name": _NAME, "namespace": self.home.name}
        yield {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, "rules": rules}
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": name},
            "subjects": [account],
        }

    def _called(self, role: Document) -> str:
        return f"{self.home.name}-{role['metadata']['name']}"

    def may(self, right: Right, space: Space) -> bool:
        """Whether the API server allows it in a namespace, of objects with a known name about those."""
        role, resource, verb = right
        names = [
            self.home.name if each["kind"] == "ClusterRole" else name
            for each in self._roles
            if each["metadata"]["name"] == role
            for rule in _rules(each, None)
            if (_resource(rule), rule["verbs"]) == (resource, [verb])
            for name in rule.get("resourceNames") or ()
        ]
        what = f"{resource}/{names[0]}" if names else resource
        user = f"--as=system:serviceaccount:{self.home.name}:{_NAME}"
        return self._kubectl.run("auth", "can-i", verb, what, "-n", space.name, user).ok


@contextmanager
def made(kubectl: Kubectl, home: Space, *files: str, narrow: bool = False) -> Iterator[Account]:
    """Make an account in a namespace, and take it away again."""
    account = Account(kubectl, home, files, narrow=narrow)
    account.make()
    try:
        yield account
    finally:
        account.remove()


def _shipped(file: str) -> list[Document]:
    (path,) = (*_MANIFESTS.glob(f"base/{file}"), *_MANIFESTS.glob(f"overlays/production/{file}"))
    return [document for document in yaml.safe_load_all(path.read_text()) if "rules" in document]


def _rules(role: Document, lacking: Right | None) -> Iterator[Document]:
    """Yield the rules of a role, one for each resource and verb, without what is lacking."""
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    one = {**rule, "apiGroups": [group], "resources": [resource], "verbs": [verb]}
                    if (role["metadata"]["name"], _resource(one), verb) != lacking:
                        yield one


def _lacks(role: Document, right: Right) -> bool:
    """Whether a role has less without a right."""
    return len(list(_rules(role, right))) < len(list(_rules(role, None)))


def _resource(rule: Mapping[str, Any]) -> str:
    (group,), (resource,) = rule["apiGroups"], rule["resources"]
    return f"{resource}.{group}" if group else str(resource)
