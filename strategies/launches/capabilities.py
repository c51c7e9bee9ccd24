"""Capabilities: flags and images of a training that need newer GPUs than the labels of its nodes allow.

Sources: flash-attn 2 README (Ampere and later), transformers `modeling_flash_attention_utils.py`
(cuda_min_major_version) and `training_args.py` (--tf32), accelerate `state.py` (fp8 becomes fp16 below 8.9), the
compiler of triton (7.0 and later), CUDA 13.0 release notes (kernels from 7.5 on). bfloat16 is emulated on older GPUs,
and passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from muster.strategies.documents import paths
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites, topologies
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.platform import generations
from muster.strategies.platform.generations import Generation

__all__ = ["bound", "check"]

_ATTENTION: Mapping[str, tuple[int, int]] = {
    "flash_attention_2": (8, 0),
    "kernels-community/flash-attn2": (8, 0),
    "flash_attention_3": (8, 0),
    "kernels-community/flash-attn3": (8, 0),
    "flash_attention_4": (9, 0),
}
_TRUE = frozenset({"true", "1", "yes", "y", "t"})
_TF32, _COMPILED, _FP8, _CUDA_13 = (8, 0), (7, 0), (8, 9), (7, 5)
_OF_CUDA_13 = re.compile(r"(?:^|[-_.])cu(?:da)?13(?![0-9]{2,})")
_RULE = "core/generation"


def bound(job: Job) -> Generation | None:
    """Return the bound of the GPUs of the training's nodes; None where no label of them says one."""
    return generations.find(job.container.pod) if job.container is not None else None


def check(job: Job) -> Iterator[Finding]:
    """Compare what a job that Trainer did not make asks of its GPUs with the labels of its nodes."""
    found = bound(job) if job.owner is None else None
    site = sites.find_site(job) if found is not None else None
    if site is None or found is None or topologies.read_topology(job).on_cpu:
        return
    for launch in site.reading.launches:
        yield from _flags(site, launch, found)
        precise = launch.launcher is Launcher.ACCELERATE and launch.values.get("mixed_precision") == "fp8"
        if precise and found.capability < _FP8:
            message = f"needs a capability of 8.9, and {_have(found)}, so Accelerate computes in fp16; use bf16 or fp16"
            yield warning(site.locate_option(launch, "mixed_precision"), "fp8", message, rule=_RULE)
    yield from _image(job, found)


def _flags(site: Site, launch: Launch, found: Generation) -> Iterator[Finding]:
    for name, value in _given(launch):
        least = None
        if name == "attn_implementation":
            least = _ATTENTION.get(value)
        elif name == "tf32" and value.lower() in _TRUE:
            least = _TF32
        elif name == "torch_compile" and value.lower() in _TRUE:
            least = _COMPILED
        if least is not None and found.capability < least:
            message = (
                f"needs a capability of {least[0]}.{least[1]}, and {_have(found)}, so the training stops; remove it"
            )
            yield warning(site.locate_option(launch, name), f"--{name} {value}", message, rule=_RULE)


_READ = frozenset({"attn_implementation", "tf32", "torch_compile"})


def _given(launch: Launch) -> Iterator[tuple[str, str]]:
    """Yield the flags of the program that are judged, with their values; a switch without one is true."""
    for index, word in enumerate(launch.rest):
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if word.startswith("--") and name in _READ:
            behind = launch.rest[index + 1] if index + 1 < len(launch.rest) else ""
            yield name, value if equals else "true" if not behind or behind.startswith("--") else behind


def _image(job: Job, found: Generation) -> Iterator[Finding]:
    """Report an image with CUDA 13, whose libraries have no kernels for GPUs before Turing."""
    own = job.trainer.image if job.kind == "TrainJob" else ""
    image = own or (job.container.container.image if job.container is not None else "")
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    if found.capability >= _CUDA_13 or not _OF_CUDA_13.search(tag):
        return
    message = (
        f"has CUDA 13, whose kernels are for a capability of 7.5 and above, and {_have(found)}; use one of CUDA 12"
    )
    if job.kind == "JobSet" and job.container is not None:
        yield warning(paths.field(job.document, (*job.container.path, "image")), image, message, rule=_RULE)
    else:
        yield warning("spec.trainer.image" if own else "spec.runtimeRef.name", image, message, rule=_RULE)


def _have(found: Generation) -> str:
    return f"the nodes of {found.told} have {found.number} at most"
