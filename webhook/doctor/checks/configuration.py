"""Checks that the configuration in the cluster is valid, and which modes it sets."""

from __future__ import annotations

from collections.abc import Iterator

from muster.webhook import configs
from muster.webhook.admission.policies import Mode
from muster.webhook.doctor import diagnoses
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import CONFIG_KEY, Document, Installation, Options
from muster.webhook.doctor.permissions import Need

__all__ = ["CHECK", "judge", "look", "needs"]

CHECK = "configuration"


def needs(options: Options) -> tuple[Need, ...]:
    """Return the permissions to read the ConfigMap."""
    return (Need("get", "configmaps", "", options.namespace, options.name),)


async def look(installation: Installation) -> list[Diagnosis]:
    """Read the configuration as `muster serve` does.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    return list(judge(await installation.get(installation.config_path), installation))


def judge(configmap: Document | None, installation: Installation) -> Iterator[Diagnosis]:
    """Yield diagnoses of the ConfigMap."""
    where = f"ConfigMap {installation.options.namespace}/{installation.options.name}"
    if CONFIG_KEY not in ((configmap or {}).get("data") or {}):
        what = f"{where} has no {CONFIG_KEY}, so the configuration of Muster is not known"
        yield diagnoses.warning(CHECK, what, "install again (docs/installation.md)")
        return
    try:
        config = configs.parse(installation.config_text(configmap).encode(), f"{where}, {CONFIG_KEY}")
    except configs.ConfigError as error:
        for line in str(error).splitlines():
            yield diagnoses.error(
                CHECK, line, "correct it: Muster keeps the last valid one, and cannot start with this one"
            )
        return
    modes = {"mode": config.mode, **{f"frameworks.{name}.mode": each.mode for name, each in config.frameworks.items()}}
    soft = {key: mode for key, mode in modes.items() if mode is not None and mode is not Mode.ENFORCE}
    for key, mode in soft.items():
        what = f"{key} is {mode.value}: jobs are neither corrected nor refused"
        yield diagnoses.warning(CHECK, what, "set it to enforce when the trial is over (docs/configuration.md#modes)")
    if not soft:
        yield diagnoses.ok(CHECK, f"{where} is valid for this version, and its mode is enforce")
