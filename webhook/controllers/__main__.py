"""`python -m muster.webhook.controllers`: the controllers alone, without the webhook.

For experiments, and for tests that need more controllers than webhooks. In a cluster `muster serve` runs them when
`controllers.enabled` is set.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from muster.kube import clients, transports
from muster.strategies.frameworks import builtin
from muster.webhook import configs, logs
from muster.webhook.controllers import controller_service

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return 2 when the controllers cannot start."""
    parser = argparse.ArgumentParser(prog="python -m muster.webhook.controllers", description=__doc__)
    parser.add_argument("--config", type=Path, metavar="FILE", help="Muster's configuration: profiles, controllers")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="in place of the configuration's")
    parser.add_argument(
        "--without-lease", action="store_true", help="write without being elected, even while others write"
    )
    args = parser.parse_args(argv)
    logs.configure()
    try:
        config = configs.load(args.config)
        asyncio.run(_run(config, args.kubeconfig or config.cluster.kubeconfig, without_lease=args.without_lease))
    except (configs.ConfigError, transports.NoClusterError, OSError) as error:
        sys.stderr.write(f"muster: {error}\n")
        return 2
    return 0


async def _run(config: configs.Config, kubeconfig: Path | None, *, without_lease: bool) -> None:
    policy = config.policy(builtin.load())
    options = controller_service.options_of(config.controllers, config.cluster)
    if without_lease:
        options = dataclasses.replace(options, terms=None)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    api = await clients.connect(kubeconfig)
    controllers = controller_service.Controllers(api, lambda: policy.profiles, options)
    controllers.start()
    try:
        await stop.wait()
    finally:
        await controllers.stop()
        await api.close()


if __name__ == "__main__":
    sys.exit(main())
