"""`python -m muster_vllm`: which vLLM this image has, on what it runs, and whether Muster's strategy fits it."""

from __future__ import annotations

import json
import sys

from muster_vllm import surface


def main() -> int:
    """Print what is so as JSON; 1 when anything that Muster relies on has moved."""
    from vllm import __version__  # noqa: PLC0415  # seconds
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
    print(json.dumps(found))  # noqa: T201  # that is its work
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
