"""Outputs: a folder of results in which the training cannot write.

TRL saves checkpoints while it trains, and the model at its end (trl `trl/scripts/sft.py`), so that a folder
which cannot be written costs hours. Kubernetes mounts a ConfigMap, a Secret, a projected, a downward API and an image
volume read-only, whatever `readOnly` says ("Volumes").
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from muster.strategies.documents import loose, model, mounts
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import find_template

__all__ = ["check"]

_RULE = "trl/output"
_LONGEST = 4_096  # characters of a path, as Linux takes them


def check(job: Job, folder: object, field: str) -> Iterator[Finding]:
    """Yield what keeps a training from writing into its output folder.

    Args:
        job: the job.
        folder: value of `--output_dir`; one that is not a text, or known only in the pod, is not judged.
        field: field path of the flag.
    """
    if job.container is None or not isinstance(folder, str) or "$" in folder or len(folder) > _LONGEST:
        return
    container = job.container.container
    path = posixpath.normpath(posixpath.join(container.working_dir, folder))
    template = find_template(job, job.container.job_path)
    if template is None or not path.startswith("/"):
        return
    mount = mounts.holding(path, loose.mappings(job.container.raw.get("volumeMounts")))
    shown = f"--output_dir {folder}"
    if mount is None:
        message = ""
        if container.security_context.get("readOnlyRootFilesystem") is True:
            message = (
                "no volume is mounted there, and readOnlyRootFilesystem lets nothing be written elsewhere; mount one"
            )
        elif mounts.holds("/root", path) and _user(container, template.pod) > 0:
            message = (
                "the home of root is closed to the user as whom the container runs; mount a volume, and write there"
            )
        if message:
            yield warning(field, shown, message, rule=_RULE)
        return
    why = mounts.why_fixed(mount, loose.mappings(template.raw_spec.get("volumes")))
    if why:
        at = mount["mountPath"]
        message = f"the volume at {at} {why}, and TRL cannot save there; use a volume that can be written"
        yield error(field, shown, message, rule=_RULE)


def _user(container: model.Container, pod: model.PodSpec) -> int:
    """Return the number of the user as whom a container runs, 0 where it is the image's or root."""
    users = [each.security_context.get("runAsUser") for each in (container, pod)]
    return next((each for each in users if isinstance(each, int)), 0)
