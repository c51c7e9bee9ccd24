"""Reloads: a changed configuration file takes effect, a broken one does not.

The contents are compared, not the modification time: a mounted ConfigMap changes by a symlink. A file that cannot be
used is refused as a whole and logged once, and the last valid configuration stays in force.
"""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path

from muster.strategies.plugins.registry import Registry
from muster.webhook import configs
from muster.webhook.admission.policies import Policy
from muster.webhook.metrics import Metrics

__all__ = ["INTERVAL", "Reloader"]

_log = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between checks of the file."""


class Reloader:
    """Holds the policy in force and follows the file.

    Args:
        path: the configuration file; None when there is none.
        config: the configuration that was read at start.
        registry: the strategies; they only change with a restart.
        metrics: counts reloads.
    """

    def __init__(self, path: Path | None, config: configs.Config, registry: Registry, metrics: Metrics) -> None:
        self._path = path
        self._started_with = config
        self._registry = registry
        self._metrics = metrics
        self._contents = _read(path)
        self._policy = config.policy(registry)
        warn_unknown_frameworks(config, registry)

    def policy(self) -> Policy:
        """Return the policy in force now."""
        return self._policy

    async def run(self, interval: float = INTERVAL) -> None:
        """Follow the file until cancelled."""
        while self._path is not None:
            await asyncio.sleep(interval * random.uniform(0.9, 1.1))  # noqa: S311  # jitter, no secret
            self.look()

    def look(self) -> bool:
        """Check the file once; return whether a new policy is in force."""
        contents = _read(self._path)
        if contents == self._contents:
            return False
        self._contents = contents
        try:
            config = configs.load(self._path)
        except configs.ConfigError as error:
            self._metrics.reloaded("refused")
            _log.error(
                "the changed configuration is refused, the last good one stays", extra={"problem": str(error)}
            )  # the message is complete; a traceback would hide it
            return False
        self._policy = config.policy(self._registry)
        self._metrics.reloaded("taken")
        warn_unknown_frameworks(config, self._registry)
        _log.info("a new configuration is in force", extra={"mode": config.mode.value})
        if keys := self._started_with.restart_needed(config):
            _log.warning("some changed keys take effect at the next start only", extra={"keys": keys})
        return True


def warn_unknown_frameworks(config: configs.Config, registry: Registry) -> None:
    """Log a warning for each framework in the file that has no strategy: it is probably misspelt."""
    known = {registered.strategy.framework for registered in registry}
    for name in sorted(set(config.frameworks) - known):
        _log.warning("the configuration names a framework without a strategy", extra={"framework": name})


def _read(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError:
        return None
