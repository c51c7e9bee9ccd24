"""Strategies for tests: one that does nothing, whose methods a test replaces."""

from __future__ import annotations

__all__ = ["Quiet", "make_strategy"]


class Quiet:
    """Has every member of the protocol and leaves every job alone."""

    framework = "acme"
    version = "1"

    def enforce_command(self, *_): ...

    def enforce_rendezvous(self, *_): ...

    def enforce_claims(self, *_): ...

    def validate(self, *_):
        return ()


def make_strategy(framework="acme", version="1", **methods):
    """A strategy whose methods are these functions, without `self`."""
    members = {name: staticmethod(method) for name, method in methods.items()}
    return type("Acme", (Quiet,), {"framework": framework, "version": version, **members})()
