"""`memory` of `muster sessions`: how much of it a trainer needs, without a device."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from muster.sessions.engines.footprint import Footprint

__all__ = ["add", "memory"]

_TOKENS = (1024, 4096, 8192, 16384, 32768)
_DTYPES = ("bfloat16", "float16", "float32")
_GIB, _GB = 2**30, 10**9
_MOST = 2**20  # GiB of a device


def add(commands: _SubParsersAction[Any]) -> argparse.ArgumentParser:
    """Add the command."""
    what = "print how much memory a trainer on one device needs, by the tokens of a pass; no device is used"
    command: argparse.ArgumentParser = commands.add_parser("memory", help=what, allow_abbrev=False)
    command.add_argument("--base", type=Path, required=True, metavar="FOLDER", help="folder with its config.json")
    command.add_argument("--rank", type=int, default=32, metavar="N", help="of adapters on all layers, 32 by default")
    command.add_argument("--full", action="store_true", help="train all weights, and no adapters")
    command.add_argument("--dtype", choices=_DTYPES, default=_DTYPES[0], help="of the weights, bfloat16 by default")
    command.add_argument("--memory", type=_amount, default=80.0, metavar="GIB", help="of the device, 80 by default")
    return command


def _amount(text: str) -> float:
    try:
        if 0 < (found := float(text)) < _MOST:
            return found
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number of GiB above 0, such as 80")


def memory(args: argparse.Namespace) -> int:
    """Print the table; 1 where no pass fits."""
    try:
        import torch  # noqa: PLC0415  # the other commands need no torch
        import transformers  # noqa: PLC0415  # as above

        from muster.sessions.engines.footprint import ROOM, Plan, footprint  # noqa: PLC0415  # as above
        from muster.sessions.seam import Lora  # noqa: PLC0415  # as above
    except ImportError as error:
        raise ValueError(f"memory: {error}: run it with a Python that has the engines' libraries") from error
    try:
        config = transformers.AutoConfig.from_pretrained(args.base, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ValueError(f"--base: {args.base}: is no model that transformers knows: {error}") from error
    lora, dtype = None if args.full else Lora(rank=args.rank), getattr(torch, args.dtype)
    kept, again = (footprint(Plan(config, lora, dtype, recompute)) for recompute in (False, True))
    what = "all weights" if args.full else f"adapters of rank {args.rank}"
    print(f"{args.base.name}: {what}, {args.dtype}: {kept.held / _GB:,.1f} GB between passes")
    print(f"{'tokens of a pass':>16}  {'all kept':>12}  {'layers again':>12}")
    for tokens in _TOKENS:
        print(f"{tokens:>16,}  {_size(kept, tokens)}  {_size(again, tokens)}")
    keep, longest = (each.longest(args.memory * _GIB) for each in (kept, again))
    if not longest:
        print(f"no pass fits into {args.memory:g} GiB: pass --ranks to serve, a smaller model, or another dtype")
        return 1
    fits = f"passes of {longest:,} tokens, of {keep:,} with all kept"
    print(f"{args.memory:g} GiB, of which tensors may have {ROOM:.0%}: {fits}")
    print(f"serve: --trainer-option budget={max(keep, 1)}")
    return 0


def _size(of: Footprint, tokens: int) -> str:
    return f"{of.bytes(tokens) / _GB:>9,.1f} GB"
