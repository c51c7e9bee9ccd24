"""Names of labels, annotations, environment variables and ports, those of other systems and Muster's own.

They stand in one module, so that a rename upstream is one edit and a reviewer sees every string that couples Muster to
Kubeflow Trainer, JobSet and torchrun. Sources: trainer `pkg/constants/constants.go`, jobset
`api/jobset/v1alpha2`, torch `torch/distributed/argparse_util.py` (PET_*).
"""

from __future__ import annotations

__all__ = [
    "ANCESTOR_LABEL",
    "ANCESTOR_TRAINER",
    "API_VERSIONS",
    "APPLIED_ANNOTATION",
    "CLAIM_PROFILE_ANNOTATION",
    "COMPLETION_INDEX_FIELD",
    "CONTAINER_NODE",
    "DEFAULT_PORT",
    "EXPECTED_DEVICES",
    "EXPECTED_WORLD_SIZE",
    "FRAMEWORK_LABEL",
    "GUARD",
    "GUARD_LABEL",
    "HOSTNAME_LABEL",
    "JOBSET_API_VERSION",
    "JOBSET_GROUP",
    "JOBSET_NAME_LABEL",
    "LAUNCHER",
    "LEASE_ANNOTATION",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MODE_LABEL",
    "OPTIMIZATION_JOB",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_NNODES",
    "PET_NODE_RANK",
    "PET_NPROC_PER_NODE",
    "PET_RDZV_BACKEND",
    "PET_RDZV_ENDPOINT",
    "PET_RDZV_ID",
    "PROFILE_LABEL",
    "RENDEZVOUS_ANNOTATION",
    "RESERVED_ENV",
    "RESERVED_ENV_OF_MPI",
    "RESERVED_ENV_OF_XGBOOST",
    "RESOURCE_CLAIMS_ANNOTATION",
    "ROLE_LABEL",
    "SEATS_ANNOTATION",
    "SEAT_GATE",
    "SET_BY",
    "SHOWN_DEVICES",
    "SPEC_HASH_ANNOTATION",
    "TRAINER_API_VERSION",
    "TRAINER_GROUP",
    "TRL_METHOD_ANNOTATION",
    "VLLM_FEATURES_ANNOTATION",
    "is_written",
]

TRAINER_GROUP = "trainer.kubeflow.org"
TRAINER_API_VERSION = "trainer.kubeflow.org/v1alpha1"
JOBSET_GROUP = "jobset.x-k8s.io"
JOBSET_API_VERSION = "jobset.x-k8s.io/v1alpha2"
OPTIMIZATION_JOB = "OptimizationJob"
"""The kind of Trainer that makes a TrainJob of its template for each trial of a search."""
API_VERSIONS = {
    "TrainJob": TRAINER_API_VERSION,
    "JobSet": JOBSET_API_VERSION,
    OPTIMIZATION_JOB: TRAINER_API_VERSION,
}
"""Of the kinds that admissions are about."""
JOBSET_NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
"""The JobSet controller sets it on every pod of a JobSet."""
HOSTNAME_LABEL = "kubernetes.io/hostname"

FRAMEWORK_LABEL = "trainer.kubeflow.org/framework"
ANCESTOR_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
ANCESTOR_TRAINER = "trainer"
CONTAINER_NODE = "node"
"""Name of the training container in every Trainer runtime, and of its replicated job."""
LAUNCHER = "launcher"
"""Name of the replicated job in which a runtime of MPI starts the training (trainer `plugins/mpi/mpi.go`)."""

DEFAULT_PORT = 29500
COMPLETION_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

PET_NNODES = "PET_NNODES"
PET_NPROC_PER_NODE = "PET_NPROC_PER_NODE"
PET_NODE_RANK = "PET_NODE_RANK"
PET_MASTER_ADDR = "PET_MASTER_ADDR"
PET_MASTER_PORT = "PET_MASTER_PORT"
PET_RDZV_BACKEND = "PET_RDZV_BACKEND"
PET_RDZV_ENDPOINT = "PET_RDZV_ENDPOINT"
PET_RDZV_ID = "PET_RDZV_ID"
RESERVED_ENV = frozenset({PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT})
"""Environment variables that only Trainer may write; a `spec.trainer.env` with one of them is refused."""
RESERVED_ENV_OF_MPI = frozenset(
    f"OMPI_MCA_{name}"
    for name in ("orte_default_hostfile", "plm_rsh_args", "orte_keep_fqdn_hostnames", "orte_set_default_slots")
)
RESERVED_ENV_OF_XGBOOST = frozenset(f"DMLC_{name}" for name in ("TRACKER_URI", "TRACKER_PORT", "TASK_ID", "NUM_WORKER"))
SET_BY_JAX = frozenset(f"JAX_{name}" for name in ("NUM_PROCESSES", "PROCESS_ID", "COORDINATOR_ADDRESS"))
SET_BY = {"jax": SET_BY_JAX, "xgboost": RESERVED_ENV_OF_XGBOOST, "mpi": RESERVED_ENV_OF_MPI}
"""What Trainer's plugins other than torch's set, by the member of `mlPolicy`."""

MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
EXPECTED_WORLD_SIZE = "MUSTER_EXPECTED_WORLD_SIZE"
"""Environment variable with which the guard compares the achieved world size."""
EXPECTED_DEVICES = "MUSTER_EXPECTED_DEVICES"
"""The same for the devices of one pod that its program uses."""
GUARD = "MUSTER_GUARD"
"""Environment variable that says what the guard does with what it measured: `report` or `enforce`."""
SHOWN_DEVICES = "NVIDIA_VISIBLE_DEVICES"
"""Devices of the machine that the container toolkit shows a container."""

_WRITTEN = frozenset(
    {MASTER_ADDR, MASTER_PORT, "RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
    | {"VLLM_SERVER_DEV_MODE", "VLLM_ALLOW_RUNTIME_LORA_UPDATING"}
)
_WRITTEN_PREFIXES = ("PET_", "MUSTER_", "ACCELERATE_", "FSDP_")


def is_written(variable: str) -> bool:
    """Whether Muster may write this variable into a job.

    What it makes of a job may then not follow from the variable's value, which is there at a second review alone.
    """
    return variable in _WRITTEN or variable.startswith(_WRITTEN_PREFIXES)


APPLIED_ANNOTATION = "muster.dev/applied"
CLAIM_PROFILE_ANNOTATION = "muster.dev/claim-profile"
"""Name of the profile whose claim the pods get; on a TrainJob, a runtime, or a replicated job's template."""
RESOURCE_CLAIMS_ANNOTATION = "muster.dev/resource-claims"
"""JSON, shaped like `resourceClaimsPerNode` of KEP-2782 as merged, for jobs that need more than a profile's name."""
PROFILE_LABEL = "muster.dev/profile"
"""On the claims and templates that Muster made, and on the pods of a shared profile."""
SPEC_HASH_ANNOTATION = "muster.dev/spec-hash"
"""On the claims and templates that Muster made: `profiles.spec_hash` of the profile at that time."""
SEATS_ANNOTATION = "muster.dev/seats"
"""On a shared ResourceClaim: JSON, the pods that hold its seats."""
LEASE_ANNOTATION = "muster.dev/lease"
"""On a ResourceClaim: JSON, who has its device at the moment; written by the agent of its node (docs/sharing.md)."""
SEAT_GATE = "muster.dev/seat"
"""Scheduling gate of a pod that has no seat yet."""
MODE_LABEL = "muster.dev/mode"
GUARD_LABEL = "muster.dev/guard"
"""`off`, `report` or `enforce`; on a namespace and on a job."""
RENDEZVOUS_ANNOTATION = "muster.dev/rendezvous"
ROLE_LABEL = "muster.dev/role"
"""`trainer` or `sampler`; on a replicated job's template or, for all replicated jobs, on an object above it."""
TRL_METHOD_ANNOTATION = "muster.dev/trl-method"
VLLM_FEATURES_ANNOTATION = "muster.dev/vllm-features"
