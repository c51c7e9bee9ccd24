"""Replicas that share authorities by way of an API server in memory, on clocks of their own."""

from __future__ import annotations

import base64
import ssl
from datetime import timedelta

import pytest

from muster.certs import contexts, errors, expiries, material_sources, probes
from muster.webhook.cluster import writes
from muster.webhook.trust import bundles, keepers, secrets, trust_leader
from tests.controllers.apiservers import ApiServer
from tests.controllers.documents import namespace

SERVICE = "muster.muster-system.svc"
RULES = keepers.TrustRules(settle=10.0, validity=timedelta(seconds=1200))
LEAF = timedelta(seconds=300)
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class Time:
    """One time for all; each replica's clock may be off by some seconds."""

    def __init__(self):
        self.start = expiries.utc_now().replace(microsecond=0)
        self.passed = 0.0

    def wall(self, skew=0.0):
        return self.start + timedelta(seconds=self.passed + skew)

    def steady(self):
        return self.passed


class Replica:
    """Keeper and leader of one replica, and what its listener serves."""

    def __init__(self, world, skew=0.0):
        self.world = world
        clocks = keepers.Clocks(lambda: world.time.wall(skew), world.time.steady)
        access = writes.Writes(world.server.connection())
        self.source = material_sources.SharedSource([SERVICE], validity=LEAF, clock=clocks.wall)
        configurations = bundles.Configurations(access, "muster")
        secret = secrets.SharedSecret(access, "muster-system", "muster-ca", clocks.wall)
        self.keeper = keepers.Keeper(secret, configurations, self.source, RULES, clocks)
        self.leader = trust_leader.TrustLeader(self.keeper, configurations, 5.0, clocks)
        self.serving = None

    async def look(self):
        await self.keeper.look()
        self.serve()

    def serve(self):
        self.serving = self.source.current()

    async def lead(self):
        await self.look()
        await self.leader.look()


class World:
    """An API server, its time, and what it trusts."""

    def __init__(self):
        self.time = Time()
        self.server = ApiServer()
        self.server.put(namespace("muster-system"))
        self.history = []
        for kind in KINDS:
            self.configure(kind)

    def configure(self, kind, bundle=""):
        entries = [{"name": f"{name}.muster.dev", "clientConfig": {"caBundle": bundle}} for name in ("a", "b")]
        self.server.put({"kind": kind, "metadata": {"name": "muster"}, "webhooks": entries})

    def bundles(self):
        """PEM of every entry."""
        found = [self.server.get(kind, "muster") for kind in KINDS]
        entries = [entry for each in found if each for entry in each["webhooks"]]
        return [base64.b64decode(entry["clientConfig"].get("caBundle") or "") for entry in entries]

    def secret(self):
        return self.server.get("Secret", "muster-ca", "muster-system")

    def replica(self, skew=0.0):
        return Replica(self, skew)

    def accepts(self, replica, bundle):
        """Whether a client with this bundle and the right time accepts what a replica serves."""
        served = replica.serving
        if not (served.leaf.covers(self.time.wall()) and served.authority.covers(self.time.wall())):
            return False
        try:
            # The library's clock is the real one: the forged times above are checked above.
            return verified(served, bundle)
        except errors.CertificateError:
            return False


def verified(material, bundle):
    """Whether OpenSSL accepts the chain by this bundle, whatever the time is."""
    server = contexts.server_context()
    contexts._load(server, material)
    client = probes.verifier(bundle)
    client.verify_flags |= ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME
    upward, downward = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(downward, upward, server_hostname=SERVICE)
    there = server.wrap_bio(upward, downward, server_side=True)
    try:
        for _ in range(10):
            if probes._advanced(here) & probes._advanced(there):
                return True
    except ssl.SSLError:
        return False
    return False


@pytest.fixture
def world():
    return World()
