"""The options of each launcher, from its own parser.

Where a launcher's parser could be imported, its table was printed from it, not copied by hand.
"""

from __future__ import annotations

from muster.strategies.launches.options import Table, table

__all__ = [
    "ACCELERATE",
    "COMPOSER",
    "DEEPSPEED",
    "DISTRIBUTED_LAUNCH",
    "FABRIC",
    "HOROVODRUN",
    "MPIRUN",
    "RAY_JOB_SUBMIT",
    "TORCHRUN",
    "TRL",
]

_TORCHRUN = """
nnodes: nproc-per-node: rdzv-backend: rdzv-endpoint: rdzv-id: rdzv-conf: max-restarts: monitor-interval:
start-method: event-log-handler: role: log-dir: r=redirects: t=tee: local-ranks-filter: duplicate-stdout-filters:
duplicate-stderr-filters: node-rank: master-addr: master-port: local-addr: logs-specs: numa-binding:
signals-to-handle: shutdown-timeout: h=help standalone m=module no-python run-path virtual-local-rank
"""

TORCHRUN: Table = table(_TORCHRUN)
"""torch 2.13 `torch/distributed/run.py` (`get_args_parser`); `tune run` of torchtune 0.6.1 takes the same."""

DISTRIBUTED_LAUNCH: Table = table(f"{_TORCHRUN} use-env")
"""torch 2.13 `torch/distributed/launch.py`: without `--use-env` it passes `--local-rank` to the script."""

ACCELERATE: Table = table(
    """
config-file: mixed-precision: num-processes: num-machines: num-cpu-threads-per-process: dynamo-backend: dynamo-mode:
gpu-ids: machine-rank: main-process-ip: main-process-port: t=tee: log-dir: role: rdzv-backend: rdzv-conf:
max-restarts: monitor-interval: vm:+ env:+ main-training-function: deepspeed-config-file: zero-stage:
offload-optimizer-device: offload-param-device: offload-optimizer-nvme-path: offload-param-nvme-path:
gradient-accumulation-steps: gradient-clipping: zero3-init-flag: zero3-save-16bit-model: deepspeed-hostfile:
deepspeed-exclusion-filter: deepspeed-inclusion-filter: deepspeed-multinode-launcher: deepspeed-moe-layer-cls-names:
fsdp-version: fsdp-offload-params: fsdp-min-num-params: fsdp-sharding-strategy: fsdp-reshard-after-forward:
fsdp-auto-wrap-policy: fsdp-transformer-layer-cls-to-wrap: fsdp-backward-prefetch: fsdp-state-dict-type:
fsdp-forward-prefetch: fsdp-use-orig-params: fsdp-cpu-ram-efficient-loading: fsdp-sync-module-states:
fsdp-activation-checkpointing: fsdp-activation-checkpointing-offload: megatron-lm-tp-degree:
megatron-lm-use-custom-fsdp: megatron-lm-no-load-optim: megatron-lm-eod-mask-loss:
megatron-lm-overlap-cpu-optimizer-d2h-h2d: megatron-lm-no-save-optim: megatron-lm-optimizer-cpu-offload:
megatron-lm-use-precision-aware-optimizer: megatron-lm-decoder-last-pipeline-num-layers: megatron-lm-pp-degree:
megatron-lm-num-micro-batches: megatron-lm-sequence-parallelism: megatron-lm-recompute-activations:
megatron-lm-use-distributed-optimizer: megatron-lm-gradient-clipping: megatron-lm-recompute-granularity:
megatron-lm-recompute-method: megatron-lm-recompute-num-layers: megatron-lm-attention-backend:
megatron-lm-expert-model-parallel-size: megatron-lm-context-parallel-size: megatron-lm-attention-dropout:
megatron-lm-hidden-dropout: megatron-lm-attention-softmax-in-fp32: megatron-lm-expert-tensor-parallel-size:
megatron-lm-calculate-per-token-loss: megatron-lm-use-rotary-position-embeddings: fp8-backend: fp8-margin:
fp8-interval: fp8-format: fp8-amax-history-len: fp8-amax-compute-algo: fp8-override-linear-precision: fp8-opt-level:
fp8-enable-fsdp-float8-all-gather: fp8-pad-inner-dim: aws-access-key-id: aws-secret-access-key: mpirun-hostfile:
parallelism-config-dp-replicate-size: parallelism-config-dp-shard-size: parallelism-config-tp-size:
parallelism-config-cp-size: parallelism-config-cp-backend: parallelism-config-cp-comm-strategy:
parallelism-config-sp-size: parallelism-config-sp-backend: parallelism-config-sp-seq-length:
parallelism-config-sp-seq-length-is-variable: parallelism-config-sp-attn-implementation: h=help q=quiet cpu
multi-gpu tpu enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic dynamo-use-regional-compilation
use-deepspeed use-fsdp use-parallelism-config use-megatron-lm same-network m=module no-python tpu-cluster
no-tpu-cluster tpu-use-sudo downcast-bf16 fp8-use-autocast-during-eval debug
""",
    abbreviated=False,
)
"""accelerate 1.15 `accelerate/commands/launch.py` (`launch_command_parser`); it allows no abbreviation."""

TRL: Table = table(
    """
config-file: num-processes: num-machines: gpu-ids: machine-rank: main-process-ip: main-process-port: rdzv-backend:
rdzv-conf: max-restarts: accelerate-config: deepspeed-config-file: deepspeed-hostfile: deepspeed-exclusion-filter:
deepspeed-inclusion-filter: deepspeed-multinode-launcher: mixed-precision: cpu multi-gpu tpu use-deepspeed use-fsdp
use-parallelism-config use-megatron-lm same-network
""",
    abbreviated=False,
    anywhere=True,
)
"""The flags of accelerate among those of `trl` that say where processes run (trl 1.16 `trl/cli/`)."""

DEEPSPEED: Table = table(
    """
H=hostfile: i=include: e=exclude: num-nodes: min-elastic-nodes: max-elastic-nodes: num-accelerators=num-gpus:
master-port: master-addr: node-rank: launcher: launcher-args: enable-each-rank-log: autotuning: comment: account:
bind-core-list: ssh-port: venv-script: h=help module no-python no-local-rank no-ssh no-ssh-check force-multi
save-pid elastic-training bind-cores-to-rank
""",
    dashed=False,
)
"""deepspeed `deepspeed/launcher/runner.py` (`parse_args`); its options have _ and never -."""

COMPOSER: Table = table(
    """
n=nproc: stdout: stderr: world-size: base-rank: node-rank: master-addr: master-port: v=verbose m=module-mode
c=command-mode version h=help
""",
    dashed=False,
)
"""mosaicml 0.32.1 `composer/cli/launcher.py` (`_get_parser`)."""

FABRIC: Table = table(
    "accelerator: strategy: devices: num-nodes: node-rank: main-address: main-port: precision: help",
    abbreviated=False,
    anywhere=True,
)
"""lightning_fabric 2.6.6 `lightning_fabric/cli.py` (`fabric run`): click, so options may stand behind the script."""

RAY_JOB_SUBMIT: Table = table(
    """
address: job-id: submission-id: runtime-env: runtime-env-json: working-dir: metadata-json: entrypoint-num-cpus:
entrypoint-num-gpus: entrypoint-memory: entrypoint-resources: entrypoint-label-selector: verify: headers: log-style:
log-color: no-wait v=verbose help
""",
    abbreviated=False,
    anywhere=True,
)
"""ray 2.60 `ray/dashboard/modules/job/cli.py` (`submit`)."""

HOROVODRUN: Table = table(
    """
np=num-proc: start-timeout: network-interfaces: network-interface:+ output-filename: config-file: p=ssh-port:
i=ssh-identity-file: fusion-threshold-mb: cycle-time-ms: cache-capacity: autotune-log-file: autotune-warmup-samples:
autotune-steps-per-sample: autotune-bayes-opt-max-samples: autotune-gaussian-process-noise: min-np=min-num-proc:
max-np=max-num-proc: slots-per-host: elastic-timeout: reset-limit: blacklist-cooldown-range:: timeline-filename:
stall-check-warning-time-seconds: stall-check-shutdown-time-seconds: mpi-args: binding-args: num-nccl-streams:
thread-affinity: gloo-timeout-seconds: log-level: H=hosts: hostfile: host-discovery-script: v=version cb=check-build
disable-cache verbose hierarchical-allreduce no-hierarchical-allreduce hierarchical-allgather
no-hierarchical-allgather autotune no-autotune timeline-mark-cycles no-timeline-mark-cycles no-stall-check
stall-check mpi-threads-disable no-mpi-threads-disable tcp log-with-timestamp log-without-timestamp
prefix-timestamp=prefix-output-with-timestamp log-hide-timestamp no-log-hide-timestamp gloo mpi jsrun h=help
""",
    single=True,
)
"""horovod 0.28 `horovod/runner/launch.py` (`parse_args`)."""

MPIRUN: Table = table(
    """
np,n,c=num-proc: H,hosts,host=hosts:+ machinefile,default-hostfile,f,hostfile=hostfile: x:+ mca::+ gmca::+ omca::+
pmixmca::+ prtemca::+ map-by: bind-to: rank-by: wd,wdir=wdir: path: prefix: N,npernode=npernode: npersocket:
cpus-per-proc: cpus-per-rank: cpu-set: rankfile,rf=rankfile: app: tmpdir: timeout: output: output-filename: stdin:
xterm: preload-files: launch-agent: max-restarts: am: tune: personality: runtime-options: display: with-ft: dvm:
exec: ppn,perhost=perhost: genv::+ genvlist: env::+ envlist: launcher: bootstrap: launcher-exec: iface: rmk:
order-nodes: outfile-pattern: errfile-pattern: usize: profile: demux: pmi-port: disable-hostname-propagation genvall
genvnone envall envnone l=prepend-rank print-rank-map print-all-exitcodes info disable-auto-cleanup disable-x
ckpoint-interval: allow-run-as-root oversubscribe nooversubscribe tag-output timestamp-output report-bindings
display-map display-allocation display-devel-map display-topo bynode byslot bycore by-slot by-node pernode nolocal
use-hwthread-cpus merge-stderr-to-stdout preload-binary s=preload-binary do-not-launch do-not-resolve
leave-session-attached debug-daemons debug-daemons-file get-stack-traces report-state-on-timeout enable-recovery
disable-recovery continuous no-ready-msg novm report-child-jobs-separately report-events: ompi-server: v=verbose
V=version q=quiet d=debug-devel h=help index-argv-by-rank stop-on-exec forward-signals: set-cwd-to-session-dir
""",
    single=True,
)
"""Open MPI 4.1 and 5.0 mpirun(1), and MPICH's Hydra 4 mpiexec(1); any of them may be called mpirun."""
