"""`python -m muster_vllm`: prints the image's vLLM, the device it runs on, and whether Muster's strategy fits it."""

from __future__ import annotations

import json
import sys

from muster_vllm import surface


def main() -> int:
    """Print the state as JSON; return 1 when vLLM lacks anything that Muster relies on."""
    from vllm import __version__  # noqa: PLC0415  # takes seconds
    from vllm.platforms import current_platform  # noqa: PLC0415  # as above
    from vllm.plugins import load_general_plugins  # noqa: PLC0415  # as above

    load_general_plugins()
    current_platform.import_kernels()
    moved = list(surface.missing())
    found = {
        "vllm": __version__,
        "device": current_platform.device_type,
        "sleep": current_platform.is_sleep_mode_available(),
        "missing": moved,
    }
    print(json.dumps(found))  # noqa: T201  # the output of the command
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
