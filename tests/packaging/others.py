"""The shapes of kinds that others define, as far as the chart uses them: cert-manager v1, Prometheus operator v1."""

from __future__ import annotations

from tests.manifests import shapes

__all__ = ["problems"]

TEXTS = {"*": str}
METADATA = {"name!": str, "namespace!": str, "labels!": TEXTS}
HEAD = {"apiVersion!": str, "kind!": str, "metadata!": METADATA}
ISSUER_REF = {"group": str, "kind": str, "name!": str}
CERTIFICATE = {
    "secretName!": str,
    "isCA": bool,
    "commonName": str,
    "dnsNames": [str],
    "duration": str,
    "renewBefore": str,
    "usages": [str],
    "privateKey": {"algorithm": str, "size": int, "rotationPolicy": str},
    "issuerRef!": ISSUER_REF,
}
TLS = {"insecureSkipVerify": bool, "serverName": str, "ca": {"secret": {"name!": str, "key!": str}}}
ENDPOINT = {"port!": str, "path!": str, "scheme!": str, "interval!": str, "tlsConfig!": TLS}
POD_ENDPOINT = {"port!": str, "path!": str, "scheme!": str, "interval!": str}
RULE = {"alert": str, "record": str, "expr!": str, "for": str, "labels": TEXTS, "annotations": TEXTS}
GROUP = {"name!": str, "interval": str, "rules!": [RULE]}

KINDS = {
    ("cert-manager.io/v1", "Issuer"): {**HEAD, "spec!": {"selfSigned": {}, "ca": {"secretName!": str}}},
    ("cert-manager.io/v1", "Certificate"): {**HEAD, "spec!": CERTIFICATE},
    ("monitoring.coreos.com/v1", "ServiceMonitor"): {
        **HEAD,
        "spec!": {"selector!": {"matchLabels": TEXTS}, "endpoints!": [ENDPOINT]},
    },
    ("monitoring.coreos.com/v1", "PodMonitor"): {
        **HEAD,
        "spec!": {"selector!": {"matchLabels": TEXTS}, "podMetricsEndpoints!": [POD_ENDPOINT]},
    },
    ("monitoring.coreos.com/v1", "PrometheusRule"): {**HEAD, "spec!": {"groups!": [GROUP]}},
}


def problems(document):
    """Return what is wrong with a document of one of these kinds."""
    key = (document["apiVersion"], document["kind"])
    return (
        list(shapes.problems(document, KINDS[key])) if key in KINDS else [f"{key[1]} of {key[0]} is not a kind of ours"]
    )
