"""What Kubeflow Trainer v2.3.0 does with a TrainJob, done again here, each behaviour once.

`tests/golden` holds the answers of Trainer's own code; `muster explain` and `muster render` show the JobSet that
`predictions` makes.
"""

from __future__ import annotations

__all__: list[str] = []
