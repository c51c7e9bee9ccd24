"""Values that cannot be right are refused before anything is sent, with the key and what is wrong."""

from __future__ import annotations

import pytest

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
    "a switch that is no truth value": ({"runtimes": {"trlDistributed": {"enabled": "yes"}}}, "/trlDistributed"),
    "an image with its tag in the name": ({"image": {"repository": "a/b:1"}}, "at '/image/repository'"),
    "a digest that is none": ({"image": {"digest": "latest"}}, "at '/image/digest'"),
    "an address that is no range": ({"networkPolicy": {"apiServer": {"cidrs": ["10.0.0.1"]}}}, "/apiServer/cidrs/0"),
    "no port": ({"networkPolicy": {"apiServer": {"ports": []}}}, "at '/networkPolicy/apiServer/ports'"),
    "a budget of none": ({"podDisruptionBudget": {"maxUnavailable": 0}}, "at '/podDisruptionBudget/maxUnavailable'"),
    "an issuer without a name": ({"tls": {"certManager": {"issuerRef": {"kind": "Issuer"}}}}, "/certManager/issuerRef"),
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
