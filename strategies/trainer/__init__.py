"""What Kubeflow Trainer does with a TrainJob, reimplemented here, each behaviour once.

`tests/golden` holds the answers of Trainer's own code; `muster explain` and `muster render` show the JobSet that
`predictions` returns.
"""

from __future__ import annotations

__all__: list[str] = []
