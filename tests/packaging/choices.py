"""Values that people may give the chart, each a way to install, by name."""

from __future__ import annotations

from tests.manifests import files
from tests.packaging import renders

__all__ = ["CHOICES"]

ISSUER = {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "company"}
ON = {"enabled": True}
MODELS = {"llama3_2_1B": ON, "llama3_2_3B": ON, "qwen2_5_1_5B": ON}
OF_TRL = {**MODELS, "grpo": ON}
PAGE = {
    "auditPage": ON,
    "auditVolume": {"claimName": "muster-audit"},
    "config": {"audit": {"file": {"path": "/var/log/muster/audit.log"}}},
}
GATEWAY = {
    **ON,
    "namespace": "gateways",
    "model": {"name": "muster/tiny", "folder": "models/muster/tiny"},
    "storage": {"claimName": "muster-sessions"},
    "tls": {"secretName": "gateway-tls"},
    "engines": {"namespace": "team-a"},
}
RUNTIME = next(each["spec"] for name, each in sorted(files.runtimes().items()) if name == "torch-distributed")

CHOICES = {
    "as it is": {},
    "nothing calls it": {"webhooks": {"enabled": False}},
    "it may fail open": {"webhooks": {"create": {"failurePolicy": "Ignore", "timeoutSeconds": 10}}},
    "namespaces left out": {"webhooks": {"excludedNamespaces": ["kube-system", "gpu-operator", "kueue-system"]}},
    "short certificates": {
        "tls": {"secret": {"name": "ring", "settings": {"leafValidity": 3600, "lease": {"name": "rings", "retry": 1}}}}
    },
    "cert-manager with a CA of its own": {"tls": {"mode": "certManager"}},
    "cert-manager with a company's CA": {"tls": {"mode": "certManager", "certManager": {"issuerRef": ISSUER}}},
    "certificates in files": {"tls": {"mode": "files", "files": {"secretName": "mine", "caBundle": renders.PEM}}},
    "controllers": {"controllers": ON, "config": {"controllers": {"grace": 60, "lease": {"duration": 20}}}},
    "controllers of another name": {"controllers": ON, "config": {"controllers": {"lease": {"name": "writers"}}}},
    "trainings are measured": {"config": {"guard": {"inject": "open"}}},
    "reports of trainings are kept": {"config": {"trainings": {"enabled": True, "lease": {"name": "keepers"}}}},
    "some namespaces alone": {
        "controllers": ON,
        "config": {
            "cluster": {"namespaces": ["team-a", "team-b"]},
            "checks": {"dryRun": True},
            "trainings": ON,
            "audit": {"events": True, "reports": "openreports"},
        },
        "webhooks": {"excludedNamespaces": ["gpu-operator"]},
    },
    "all runtimes": {
        "runtimes": {"torchDistributed": ON, "torchtuneDistributed": MODELS, "trlDistributed": {**MODELS, "grpo": ON}}
    },
    "runtimes of another registry": {
        "runtimes": {
            "torchDistributed": {**ON, "image": {"registry": "registry.example", "repository": "torch", "tag": "2"}},
            "trlDistributed": {**MODELS, "image": {"registry": "registry.example", "repository": "mine/trl"}},
        }
    },
    "another image": {
        "image": {"registry": "registry.example:5000", "repository": "a/b", "tag": "1", "digest": f"sha256:{'a' * 64}"},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "a guarded network": {
        "networkPolicy": {
            "apiServer": {"cidrs": ["10.0.0.0/28", "fd00::1/128"], "ports": [6443]},
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        }
    },
    "nothing around it": {
        "replicas": 1,
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "priorityClassName": "",
        "topologySpread": {"keys": []},
    },
    "a place of its own": {
        "replicas": 5,
        "priorityClassName": "important",
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpread": {"keys": ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]},
        "podLabels": {"team": "ml", "app.kubernetes.io/name": "mine"},
        "podAnnotations": {"example.com/scrape": "no"},
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "serviceAccount": {"annotations": {"example.com/role": "reader"}},
        "podDisruptionBudget": {"maxUnavailable": "40%"},
    },
    "at least some": {"replicas": 3, "podDisruptionBudget": {"minAvailable": "50%"}},
    "the network of the node": {
        "hostNetwork": True,
        "config": {"server": {"port": 10250}},
        "extraArgs": ["--help"],
        "extraEnv": [
            {"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
    },
    "a service for others": {
        "service": {"type": "NodePort", "port": 8443, "annotations": {"example.com/pool": "internal"}},
        "dnsPolicy": "Default",
    },
    "an account of yours": {"serviceAccount": {"create": False, "name": "trusted"}},
    "an audit page": PAGE,
    "an audit page of cert-manager": {
        **PAGE,
        "tls": {"mode": "certManager"},
        "networkPolicy": {"apiServer": {"cidrs": ["10.0.0.0/28"], "ports": [6443]}},
        "auditPage": {
            **ON,
            "readers": [{"kind": "Group", "name": "platform", "apiGroup": "rbac.authorization.k8s.io"}],
        },
    },
    "an audit page with a certificate of yours": {**PAGE, "auditPage": {**ON, "tlsSecretName": "mine"}},
    "a log of each replica on one volume": {
        "auditVolume": {"claimName": "logs", "mountPath": "/srv/audit"},
        "config": {"audit": {"file": {"path": "/srv/audit/decisions.log"}}},
        "extraEnv": [{"name": "A", "value": "b"}],
    },
    "labels everywhere": {
        **PAGE,
        "commonLabels": {"example.com/cost-center": "42", "app.kubernetes.io/name": "mine"},
        "podLabels": {"example.com/cost-center": "43"},
        "monitoring": {"dashboard": ON},
        "controllers": ON,
    },
    "runtimes of your own": {
        "runtimes": {
            "custom": {
                "ours": {
                    "framework": "torch",
                    "labels": {"team": "ml"},
                    "annotations": {"example.com/owner": "ml"},
                    "spec": RUNTIME,
                }
            }
        }
    },
    "monitoring": {
        "monitoring": {
            "serviceMonitor": {**ON, "labels": {"release": "prometheus"}},
            "prometheusRule": {**ON, "runbookBase": "https://docs.example/muster/"},
            "dashboard": ON,
        }
    },
    "monitoring of files": {
        "tls": {"mode": "certManager"},
        "monitoring": {"serviceMonitor": {**ON, "interval": "1m"}},
    },
    "a configuration with everything": {
        "config": {
            "mode": False,  # the word off, as YAML 1.1 reads it
            "onFailure": "allow",
            "pluginBudget": 2,
            "frameworks": {"trl": {"mode": "warn", "rendezvous": "c10d", "profile": "four"}},
            "profiles": {"four": {"deviceClass": "gpu.nvidia.com", "count": 4}},
            "roles": {"trainer": {"nodeLabels": {"pool": "training"}}},
            "server": {"port": 9443, "requestTimeout": 2.5, "bodyLimit": 7340032, "shutdownGrace": 60},
            "audit": {"file": {"path": "/var/log/muster/audit.log", "maxBytes": 67108864}, "redact": ["^MY_"]},
        },
        "extraVolumes": [{"name": "audit", "emptyDir": {"sizeLimit": "1Gi"}}],
        "extraVolumeMounts": [{"name": "audit", "mountPath": "/var/log/muster"}],
    },
    "a gateway": {"gateway": GATEWAY},
    "a gateway beside its engines, in HTTP": {
        "gateway": {**GATEWAY, "namespace": "", "tls": {"plain": True}, "service": {"port": 80}},
        "networkPolicy": {"enabled": False},
    },
    "gateways that share a database": {
        "config": {"profiles": {"seat": {"deviceClass": "gpu.nvidia.com", "sharing": "shared", "maxSessions": 4}}},
        "commonLabels": {"example.com/cost-center": "42", "app.kubernetes.io/name": "mine"},
        "imagePullSecrets": [{"name": "registry"}],
        "gateway": {
            **GATEWAY,
            "name": "rl",
            "replicas": 2,
            "database": {"secretName": "journal", "ports": [6432]},
            "storage": {"claimName": "own", "enginesClaimName": "theirs", "folder": "a/b"},
            "engines": {
                "namespace": "team-a",
                "image": {"registry": "registry.example", "repository": "engine", "tag": "2"},
                "samplerImage": {"registry": "registry.example", "repository": "engine", "tag": "2-vllm"},
                "profile": "seat",
                "memory": "16Gi",
            },
            "limits": "[default]\nmodels = 10\n",
            "extraArgs": ["--sampler=vllm", "--sampler-option=rank=32"],
            "service": {"type": "LoadBalancer", "annotations": {"example.com/pool": "internal"}},
            "clientsFrom": [{"namespaceSelector": {"matchLabels": {"team": "ml"}}}],
        },
        "monitoring": {"serviceMonitor": {**ON, "labels": {"release": "prometheus"}}},
    },
    "gateways whose engines take turns": {
        "config": {
            "profiles": {
                "seat": {"deviceClass": "gpu.nvidia.com", "sharing": "shared", "maxSessions": 4, "claims": 2},
                "spare": {"deviceClass": "gpu.nvidia.com", "sharing": "shared", "maxSessions": 2},
            }
        },
        "commonLabels": {"example.com/cost-center": "42"},
        "imagePullSecrets": [{"name": "registry"}],
        "gateway": {
            **GATEWAY,
            "engines": {"namespace": "team-a", "profile": "seat", "spillOver": ["spare"]},
            "devices": {
                **ON,
                "namespace": "muster-devices",
                "folder": "/run/leases",
                "image": {"registry": "registry.example", "repository": "agent", "tag": "2"},
                "runtimeClassName": "nvidia",
                "nodeSelector": {"gpu": "yes"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "turn": 30,
            },
        },
        "networkPolicy": {"apiServer": {"cidrs": ["10.0.0.0/28"], "ports": [6443]}},
        "monitoring": {"serviceMonitor": ON},
    },
    "a gateway with a certificate of cert-manager": {
        "tls": {"mode": "certManager", "certManager": {"issuerRef": ISSUER}},
        "networkPolicy": {
            "apiServer": {"cidrs": ["10.0.0.0/28"], "ports": [6443]},
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        },
        "gateway": {**GATEWAY, "tls": {"dnsNames": ["rl.example.com"]}},
    },
}
