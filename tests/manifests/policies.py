"""What the admission policy of a Gateway has to name, so that the objects of its engines are taken."""

from __future__ import annotations

from muster.sessions.platforms import manifests

__all__ = ["unnamed"]


def unnamed(policy, settings):
    """Return what engines of these settings have and no expression of the policy names, in quotes as CEL has them.

    The suite `e2e/suites/rights` shows with an API server that the expressions are right.
    """
    (condition,) = policy["spec"]["matchConditions"]
    text = " ".join([condition["expression"], *(each["expression"] for each in policy["spec"]["validations"])])
    words = {f"system:serviceaccount:{settings.peers}:{settings.gateway}", settings.peers, settings.gateway}
    words |= {manifests.name_of(settings), f"probe-{settings.gateway}"}
    made = manifests.job_set(settings, dict.fromkeys(manifests.ROLES, ()))
    for pod in (each["template"]["spec"]["template"]["spec"] for each in made["spec"]["replicatedJobs"]):
        (container,) = pod["containers"]
        words |= {container["image"], *container["command"], *pod, *container}
        words |= {
            ":".join((each["name"], each["mountPath"], each.get("subPath", ""))) for each in container["volumeMounts"]
        }
        words |= {
            each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"] if "persistentVolumeClaim" in each
        }
        words |= {each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    return {word for word in words if f"'{word}'" not in text}
