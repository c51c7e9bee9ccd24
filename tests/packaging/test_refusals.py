"""Values that cannot be right are refused before anything is sent, with the key and what is wrong."""

from __future__ import annotations

import pytest

from tests.packaging import choices

LOG = {"audit": {"file": {"path": "/var/log/muster/audit.log"}}}
WRITABLE = "config.audit.file.path: /var/log/muster/audit.log is not in a volume that can be written, and the root"


def mounted(path, volume=None, **options):
    """Values that mount a volume there, an empty one unless another is given."""
    return {
        "extraVolumes": [{"name": "logs", **(volume or {"emptyDir": {}})}],
        "extraVolumeMounts": [{"name": "logs", "mountPath": path, **options}],
    }


def gateway(**changes):
    """Values with a Gateway, some of them others."""
    return {"gateway": {**choices.GATEWAY, **changes}}


def profiled(**engines):
    """Values with a Gateway whose engines have these, where there is a profile `seat`."""
    shared = {"deviceClass": "gpu.nvidia.com", "sharing": "shared", "maxSessions": 2}
    return {**gateway(engines={"namespace": "team-a", **engines}), "config": {"profiles": {"seat": shared}}}


def without(key):
    """Values with a Gateway that lacks something."""
    return {"gateway": {name: each for name, each in choices.GATEWAY.items() if name != key}}


REFUSALS = {
    "a misspelt key": ({"replica": 3}, "additional properties 'replica' not allowed"),
    "a misspelt key inside": ({"image": {"name": "x"}}, "at '/image': additional properties 'name' not allowed"),
    "a misspelt key of the configuration": ({"config": {"mdoe": "warn"}}, "at '/config'"),
    "no replica": ({"replicas": 0}, "at '/replicas'"),
    "replicas as a text": ({"replicas": "2"}, "at '/replicas'"),
    "a mode that is none": ({"config": {"mode": "strict"}}, "at '/config/mode'"),
    "certificates from nowhere": ({"tls": {"mode": "selfSigned"}}, "at '/tls/mode'"),
    "files without their CA": ({"tls": {"mode": "files"}}, "at '/tls/files/caBundle'"),
    "a CA that is a path": ({"tls": {"mode": "files", "files": {"caBundle": "ca.crt"}}}, "at '/tls/files/caBundle'"),
    "tls beside the switch": ({"config": {"tls": {"selfSigned": True}}}, "at '/config'"),
    "controllers beside the switch": ({"config": {"controllers": {"enabled": True}}}, "/config/controllers/enabled"),
    "the Secret's name beside its key": ({"tls": {"secret": {"settings": {"name": "x"}}}}, "/tls/secret/settings/name"),
    "a policy that is none": ({"webhooks": {"create": {"failurePolicy": "fail"}}}, "/webhooks/create/failurePolicy"),
    "a timeout that is too long": ({"webhooks": {"update": {"timeoutSeconds": 31}}}, "/update/timeoutSeconds"),
    "a namespace that is none": ({"webhooks": {"excludedNamespaces": ["My_Team"]}}, "/webhooks/excludedNamespaces/0"),
    "a runtime that is none": ({"runtimes": {"trl": {"enabled": True}}}, "at '/runtimes'"),
    "a switch that is not a truth value": ({"runtimes": {"trlDistributed": {"enabled": "yes"}}}, "/trlDistributed"),
    "an image with its tag in the name": ({"image": {"repository": "a/b:1"}}, "at '/image/repository'"),
    "a digest that is none": ({"image": {"digest": "latest"}}, "at '/image/digest'"),
    "an address that is not a range": ({"networkPolicy": {"apiServer": {"cidrs": ["10.0.0.1"]}}}, "/apiServer/cidrs/0"),
    "no port": ({"networkPolicy": {"apiServer": {"ports": []}}}, "at '/networkPolicy/apiServer/ports'"),
    "a budget of none": ({"podDisruptionBudget": {"maxUnavailable": 0}}, "at '/podDisruptionBudget/maxUnavailable'"),
    "an issuer without a name": ({"tls": {"certManager": {"issuerRef": {"kind": "Issuer"}}}}, "/certManager/issuerRef"),
    "a label that is none": ({"commonLabels": {"team": "a b"}}, "at '/commonLabels/team'"),
    "a variable without a name": ({"extraEnv": [{"value": "x"}]}, "at '/extraEnv/0'"),
    "variables as a map": ({"extraEnv": {"A": "b"}}, "at '/extraEnv'"),
    "a variable's misspelt key": ({"extraEnv": [{"name": "A", "vaule": "b"}]}, "'vaule' not allowed"),
    "an argument that is a number": ({"extraArgs": [1]}, "at '/extraArgs/0'"),
    "a network that is a text": ({"hostNetwork": "true"}, "at '/hostNetwork'"),
    "a way to resolve names that is none": ({"dnsPolicy": "clusterFirst"}, "at '/dnsPolicy'"),
    "a service that is none": ({"service": {"type": "ExternalName"}}, "at '/service/type'"),
    "a port that is none": ({"service": {"port": 0}}, "at '/service/port'"),
    "an account from nowhere": (
        {"serviceAccount": {"create": False}},
        "serviceAccount.name: is empty although serviceAccount.create is false; give the name",
    ),
    "two budgets": (
        {"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}},
        "podDisruptionBudget: has minAvailable (1) and maxUnavailable (1); give one of them",
    ),
    "a budget that lets nobody go": (
        {"podDisruptionBudget": {"minAvailable": 2}},
        "podDisruptionBudget.minAvailable: 2 leaves none of 2 replicas to be evicted",
    ),
    "a share that is all": ({"podDisruptionBudget": {"minAvailable": "100%"}}, "100% leaves none of 2 replicas"),
    "a runtime without a framework": (
        {"runtimes": {"custom": {"a": {"spec": {"template": {}}}}}},
        "/runtimes/custom/a",
    ),
    "a runtime without a template": (
        {"runtimes": {"custom": {"a": {"framework": "trl", "spec": {}}}}},
        "at '/runtimes/custom/a/spec'",
    ),
    "a runtime that exists": (
        {"runtimes": {"custom": {"trl-distributed": {"framework": "trl", "spec": {"template": {}}}}}},
        "runtimes.custom: trl-distributed is the name of a runtime that runtimes.trlDistributed switches on",
    ),
    "a volume that the chart makes": (
        {"extraVolumes": [{"name": "config", "emptyDir": {}}]},
        "extraVolumes: config is the name of a volume that the chart makes",
    ),
    "a log on the root file system": ({"config": LOG}, WRITABLE),
    "a log beside the volume": ({"config": LOG, **mounted("/var/log/must")}, WRITABLE),
    "a log on a volume that is only read": ({"config": LOG, **mounted("/var/log/muster", readOnly=True)}, WRITABLE),
    "a log in a Secret": ({"config": LOG, **mounted("/var/log", volume={"secret": {"secretName": "a"}})}, WRITABLE),
    "a log on the way out of a volume": (
        {"config": {"audit": {"file": {"path": "/var/log/muster/../audit.log"}}}, **mounted("/var/log/muster")},
        "is not in a volume that can be written",
    ),
    "a page without a volume": ({"auditPage": {"enabled": True}}, "there is none; give auditVolume.claimName"),
    "a log beside its volume": (
        {"auditVolume": {"claimName": "a"}, "config": {"audit": {"file": {"path": "/var/log/audit.log"}}}},
        "config.audit.file.path (/var/log/audit.log) is not a file in auditVolume.mountPath; give /var/log/muster",
    ),
    "a volume without a log": ({"auditVolume": {"claimName": "a"}}, "config.audit.file.path (none) is not a file in"),
    "a reader that is none": ({"auditPage": {"readers": [{"kind": "Team", "name": "a"}]}}, "/auditPage/readers/0/kind"),
    "a gateway of nothing": (
        {"gateway": {"enabled": True}},
        "gateway.model.name: is empty although gateway.enabled is true; docs/sessions.md says",
    ),
    "turns without a device": (
        gateway(devices={"enabled": True}),
        "gateway.devices.enabled: engines have no device on which they could take turns; give a shared profile",
    ),
    "a gateway without a model": (without("model"), "gateway.model.name: is empty although gateway.enabled is true"),
    "a gateway without a volume": (without("storage"), "gateway.storage.claimName: is empty although"),
    "engines where nothing is decided": (
        gateway(engines={"namespace": "muster-system"}),
        "gateway.engines.namespace: Muster decides nothing in muster-system",
    ),
    "gateways that share a file": (
        gateway(replicas=2),
        "gateway.replicas: 2 of them cannot share a journal in a file; give gateway.database.secretName, or 1",
    ),
    "two claims in one namespace": (
        gateway(namespace="team-a", storage={"claimName": "a", "enginesClaimName": "b"}),
        "gateway.storage.enginesClaimName: Gateway and engines are both in team-a and have one claim, a",
    ),
    "keys that anybody on the way reads": (
        gateway(tls={}),
        "gateway.tls.secretName: is empty; give a Secret with tls.crt and tls.key in gateways for gateway.gateways.svc",
    ),
    "a certificate for nobody": (gateway(tls={"plain": True, "secretName": "a"}), "has plain and secretName; give one"),
    "an issuer that is elsewhere": (
        {**gateway(tls={}), "tls": {"mode": "certManager"}},
        "the Issuer of muster-system makes no certificates in gateways; give a Secret, or a ClusterIssuer",
    ),
    "a namespace that is left out": (
        {"config": {"cluster": {"namespaces": ["a", "muster-system"]}}},
        "config.cluster.namespaces: Muster decides nothing in muster-system; leave it out",
    ),
    "engines beside the namespaces": (
        {**gateway(), "config": {"cluster": {"namespaces": ["a"]}}},
        "gateway.engines.namespace: team-a is not in config.cluster.namespaces",
    ),
    "a profile that the configuration lacks": (
        gateway(engines={"namespace": "team-a", "profile": "seat"}),
        "gateway.engines.profile: config.profiles has no seat",
    ),
    "a spill-over from nothing": (
        gateway(engines={"namespace": "team-a", "spillOver": ["seat"]}),
        "gateway.engines.spillOver: comes after gateway.engines.profile, which is empty; give that the first of them",
    ),
    "a spill-over to where it comes from": (
        profiled(profile="seat", spillOver=["seat"]),
        "gateway.engines.spillOver: seat is gateway.engines.profile already; leave it out",
    ),
    "a spill-over to what the configuration lacks": (
        profiled(profile="seat", spillOver=["spare"]),
        "gateway.engines.spillOver: config.profiles has no spare",
    ),
    "a gateway whose name is too long": (gateway(name="a" * 41), "at '/gateway/name'"),
    "a folder out of a claim": (
        gateway(model={"name": "a", "folder": "a/../b"}),
        "at '/gateway/model/folder'",
    ),
    "a name with a variable": (gateway(model={"name": "$(PGPASSWORD)"}), "at '/gateway/model/name'"),
    "a gateway's misspelt key": (gateway(replica=1), "at '/gateway': additional properties 'replica' not allowed"),
    "an API server that gives up first": (
        {"webhooks": {"create": {"timeoutSeconds": 4}}},
        "webhooks.create.timeoutSeconds: 4 is not above config.server.requestTimeout (4)",
    ),
    "a Muster that waits too long": (
        {"config": {"server": {"requestTimeout": 20}}},
        "the API server would give up before Muster can say why",
    ),
}


@pytest.mark.parametrize(("values", "said"), list(REFUSALS.values()), ids=list(REFUSALS))
def test_what_cannot_be_right_is_refused_by_its_key(helm, values, said):
    assert said in helm.refusal(values)
