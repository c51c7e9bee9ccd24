"""The Kubernetes objects that Muster reads, as typed, frozen values: the members that it reads, and no others.

`decoding.decode` and `decoding.read` make them. A member that is missing or null has its default, so that no reader
asks for it again. A member that Muster does not know is left out, and survives, because a patch is made of the document
and never of these values. Names are those of the Go types, in Python's spelling.

Sources: Trainer `pkg/apis/trainer/v1alpha1/{trainjob,trainingruntime}_types.go`, JobSet
`api/jobset/v1alpha2/jobset_types.go`, Kubernetes `core/v1` and `resource.k8s.io/v1`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from muster.strategies.documents import names

__all__ = [
    "KINDS",
    "Affinity",
    "Choices",
    "ClaimDevices",
    "ClaimRequest",
    "ClaimSpec",
    "ClaimTemplate",
    "ConfigMapRef",
    "Container",
    "Coordinator",
    "DNSConfig",
    "DependsOn",
    "DeviceClaimSpec",
    "DeviceClass",
    "DeviceClassSpec",
    "DeviceRequest",
    "EmptyDir",
    "EnvFrom",
    "EnvInjection",
    "EnvVar",
    "EnvVarSource",
    "ExitCodes",
    "Expression",
    "FailurePolicy",
    "FailureRule",
    "FieldRef",
    "Files",
    "Initializer",
    "InitializerSource",
    "InjectionTarget",
    "Job",
    "JobSet",
    "JobSetSpec",
    "JobSetTemplate",
    "JobSpec",
    "KeyRef",
    "KeyToPath",
    "MLPolicy",
    "MPIPolicy",
    "Metric",
    "Named",
    "Namespace",
    "Network",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSpec",
    "NodeStatus",
    "NodeTerm",
    "ObjectMeta",
    "OptimizationJob",
    "OptimizationJobSpec",
    "OwnerReference",
    "Parameter",
    "PatchedRuntime",
    "PodAffinity",
    "PodClaim",
    "PodFailurePolicy",
    "PodFailureRule",
    "PodSpec",
    "PodSpecOverride",
    "PodTemplate",
    "PodTemplateOverride",
    "PodTerm",
    "Port",
    "Probe",
    "ProbedPort",
    "ProjectedFiles",
    "Quantity",
    "Range",
    "ReplicatedJob",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceClaimTemplateSpec",
    "ResourceClaimUse",
    "ResourceFieldRef",
    "Resources",
    "Runtime",
    "RuntimePatch",
    "RuntimeRef",
    "RuntimeSpec",
    "SearchSpace",
    "SecurityContext",
    "Selector",
    "Spread",
    "StartupPolicy",
    "Storage",
    "StorageRequests",
    "SuccessPolicy",
    "Taint",
    "TemplateMeta",
    "Toleration",
    "TorchPolicy",
    "TrainJob",
    "TrainJobSpec",
    "TrainJobTemplate",
    "Trainer",
    "TrainerStatus",
    "Volume",
    "VolumeClaimPolicy",
    "VolumeDevice",
    "VolumeMount",
]

Texts = dict[str, str]
Quantity = int | float | str
Amounts = dict[str, Quantity]
"""Quantities by the name of a resource."""
Anything = dict[str, object]
"""An object whose members are looked at by somebody who knows more about them."""


class _Object(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """A part of an object; what it holds is only read."""


class OwnerReference(_Object, frozen=True):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(_Object, frozen=True):
    """`metadata` of an object, or of a template."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    labels: Texts = {}
    annotations: Texts = {}
    owner_references: tuple[OwnerReference, ...] = ()


class Named(_Object, frozen=True):
    """An entry of which only the name is read, such as a scheduling gate."""

    name: str = ""


class KeyRef(_Object, frozen=True):
    """`valueFrom.configMapKeyRef` and `valueFrom.secretKeyRef`."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldRef(_Object, frozen=True):
    """`valueFrom.fieldRef`."""

    field_path: str = ""


class ResourceFieldRef(_Object, frozen=True):
    """`valueFrom.resourceFieldRef`."""

    container_name: str = ""
    resource: str = ""
    divisor: Quantity = 0


class EnvVarSource(_Object, frozen=True):
    """`valueFrom` of a variable; other sources than these are known only in the pod."""

    field_ref: FieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None
    resource_field_ref: ResourceFieldRef | None = None


class EnvVar(_Object, frozen=True):
    """One entry of `env`: a value, or where the pod gets it from."""

    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None

    @property
    def literal(self) -> str | None:
        """The value; None where only the pod knows it."""
        return self.value if self.value_from is None else None

    @property
    def field_path(self) -> str:
        """The field of the pod from which the value is read, "" where it is not read from one."""
        source = self.value_from.field_ref if self.value_from else None
        return source.field_path if source else ""


class ConfigMapRef(_Object, frozen=True):
    """`envFrom[].configMapRef`."""

    name: str = ""


class EnvFrom(_Object, frozen=True):
    """One entry of `envFrom`."""

    prefix: str = ""
    config_map_ref: ConfigMapRef | None = None


class ResourceClaimUse(_Object, frozen=True):
    """`resources.claims[]`: a claim of the pod, and one of its requests."""

    name: str = ""
    request: str = ""


class Resources(_Object, frozen=True):
    """`resources`: quantities by resource name, and the claims of the pod that are used."""

    limits: Amounts = {}
    requests: Amounts = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class Port(_Object, frozen=True):
    """One entry of `ports` of a container."""

    name: str = ""
    container_port: int | None = None
    host_port: int | None = None


class SecurityContext(_Object, frozen=True):
    """`securityContext` of a pod or of a container; None is for what it leaves open."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    fs_group: int | None = None
    read_only_root_filesystem: bool | None = None
    privileged: bool | None = None

    def over(self, outer: SecurityContext) -> SecurityContext:
        """Return what is in force in a container with this context, in a pod with the outer one."""
        own = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(outer, **own)


class VolumeMount(_Object, frozen=True):
    """`volumeMounts[]`."""

    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class VolumeDevice(_Object, frozen=True):
    """`volumeDevices[]`."""

    name: str = ""
    device_path: str = ""


class ProbedPort(_Object, frozen=True):
    """`tcpSocket` or `httpGet` of a probe; a port is a number, or the name of one of the container."""

    host: str = ""
    port: int | str = 0
    path: str = ""
    scheme: str = ""
    http_headers: tuple[Named, ...] = ()


class Probe(_Object, frozen=True):
    """`livenessProbe`, `readinessProbe` or `startupProbe`."""

    tcp_socket: ProbedPort | None = None
    http_get: ProbedPort | None = None


class Container(_Object, frozen=True):
    """A container; `command` and `args` are None where the image's own, or a runtime's, are taken."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    ports: tuple[Port, ...] = ()
    resources: Resources = Resources()
    restart_policy: str = ""
    security_context: SecurityContext = SecurityContext()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    working_dir: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        """Its own command line, `command` followed by `args`."""
        return (*(self.command or ()), *(self.args or ()))

    @property
    def is_privileged(self) -> bool:
        """Whether it may do what root of the machine may."""
        return self.security_context.privileged is True

    def find_env(self, name: str) -> EnvVar | None:
        """Return the last variable called `name`: later entries win in Kubernetes."""
        return next((entry for entry in reversed(self.env) if entry.name == name), None)

    def env_value(self, name: str) -> str | None:
        """Return the plain value of a variable; None when it is missing or comes from a reference."""
        entry = self.find_env(name)
        return None if entry is None else entry.literal


class PodClaim(_Object, frozen=True):
    """`resourceClaims[]` of a pod."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""

    @property
    def source(self) -> tuple[str, str]:
        """Kind and name of the object that it names."""
        if self.resource_claim_template_name:
            return "ResourceClaimTemplate", self.resource_claim_template_name
        return "ResourceClaim", self.resource_claim_name


class Toleration(_Object, frozen=True):
    """`tolerations[]`."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Spread(_Object, frozen=True):
    """`topologySpreadConstraints[]`."""

    topology_key: str = ""


class Expression(_Object, frozen=True):
    """`matchExpressions[]`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Selector(_Object, frozen=True):
    """`labelSelector`."""

    match_labels: Texts = {}
    match_expressions: tuple[Expression, ...] = ()


class NodeTerm(_Object, frozen=True):
    """`nodeSelectorTerms[]`."""

    match_labels: Texts = {}
    match_expressions: tuple[Expression, ...] = ()
    match_fields: tuple[Anything, ...] = ()


class NodeSelector(_Object, frozen=True):
    """A required node affinity."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity(_Object, frozen=True):
    """`affinity.nodeAffinity`."""

    required: NodeSelector = msgspec.field(name=_REQUIRED, default=NodeSelector())


class PodTerm(_Object, frozen=True):
    """A term of a required affinity between pods."""

    topology_key: str = ""
    label_selector: Selector | None = None


class PodAffinity(_Object, frozen=True):
    """`affinity.podAffinity` and `affinity.podAntiAffinity`."""

    required: tuple[PodTerm, ...] = msgspec.field(name=_REQUIRED, default=())


class Affinity(_Object, frozen=True):
    """`affinity`."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class KeyToPath(_Object, frozen=True):
    """One file of a volume, `items[]`."""

    key: str = ""
    path: str = ""
    mode: int | None = None


class Files(_Object, frozen=True):
    """Files that Kubernetes writes into a volume: of a ConfigMap, a Secret, of fields of the pod, or of several."""

    name: str = ""
    secret_name: str = ""
    optional: bool = False
    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    sources: tuple[ProjectedFiles, ...] = ()


class ProjectedFiles(_Object, frozen=True):
    """`projected.sources[]`."""

    config_map: Files | None = None
    secret: Files | None = None
    downward_api: Files | None = msgspec.field(name="downwardAPI", default=None)


class Storage(_Object, frozen=True):
    """Any other source of a volume."""

    claim_name: str = ""
    driver: str = ""
    read_only: bool = False


class EmptyDir(_Object, frozen=True):
    """`emptyDir` of a volume."""

    medium: str = ""
    size_limit: int | float | str | None = None


class Volume(_Object, frozen=True):
    """`volumes[]`: a name and one source."""

    name: str = ""
    aws_elastic_block_store: Storage | None = None
    azure_disk: Storage | None = None
    azure_file: Storage | None = None
    cephfs: Storage | None = None
    cinder: Storage | None = None
    config_map: Files | None = None
    csi: Storage | None = None
    downward_api: Files | None = msgspec.field(name="downwardAPI", default=None)
    empty_dir: EmptyDir | None = None
    ephemeral: Anything | None = None
    fc: Storage | None = None
    flex_volume: Storage | None = None
    flocker: Anything | None = None
    gce_persistent_disk: Storage | None = None
    git_repo: Anything | None = None
    glusterfs: Storage | None = None
    host_path: Anything | None = None
    image: Anything | None = None
    iscsi: Storage | None = None
    nfs: Storage | None = None
    persistent_volume_claim: Storage | None = None
    photon_persistent_disk: Anything | None = None
    portworx_volume: Storage | None = None
    projected: Files | None = None
    quobyte: Storage | None = None
    rbd: Storage | None = None
    scale_io: Storage | None = msgspec.field(name="scaleIO", default=None)
    secret: Files | None = None
    storageos: Storage | None = None
    vsphere_volume: Anything | None = None

    @property
    def sources(self) -> dict[str, object]:
        """Its sources by their kind; Kubernetes allows one."""
        # Not by `msgspec.structs.fields`, which reads the types of all members anew, in a millisecond.
        named = zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True)
        found = ((kind, getattr(self, name)) for kind, name in named)
        return {kind: source for kind, source in found if kind != "name" and source is not None}


class DNSConfig(_Object, frozen=True):
    """`dnsConfig`."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()


class PodSpec(_Object, frozen=True):
    """A pod spec."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    host_network: bool = False
    share_process_namespace: bool = False
    dns_policy: str = ""
    dns_config: DNSConfig = DNSConfig()
    enable_service_links: bool | None = None
    resources: Resources = Resources()
    resource_claims: tuple[PodClaim, ...] = ()
    scheduling_gates: tuple[Named, ...] = ()
    security_context: SecurityContext = SecurityContext()
    volumes: tuple[Volume, ...] = ()
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    node_name: str = ""
    node_selector: Texts = {}
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[Spread, ...] = ()
    affinity: Affinity = Affinity()
    restart_policy: str = ""
    os: Named = Named()


class TemplateMeta(_Object, frozen=True):
    """`metadata` of a template."""

    labels: Texts = {}
    annotations: Texts = {}


class PodTemplate(_Object, frozen=True):
    """A pod template."""

    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()


class ExitCodes(_Object, frozen=True):
    """`onExitCodes` of a rule about failed pods."""

    operator: str = ""
    values: tuple[int, ...] = ()


class PodFailureRule(_Object, frozen=True):
    """One entry of `podFailurePolicy.rules`."""

    action: str = ""
    on_exit_codes: ExitCodes | None = None


class PodFailurePolicy(_Object, frozen=True):
    """`podFailurePolicy` of a Job."""

    rules: tuple[PodFailureRule, ...] = ()


class JobSpec(_Object, frozen=True):
    """`template.spec` of a replicated job."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = ""
    backoff_limit: int | None = None
    ttl_seconds_after_finished: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    pod_failure_policy: PodFailurePolicy = PodFailurePolicy()
    template: PodTemplate = PodTemplate()


class Job(_Object, frozen=True):
    """`template` of a replicated job: a Kubernetes Job."""

    metadata: TemplateMeta = TemplateMeta()
    spec: JobSpec = JobSpec()


class DependsOn(_Object, frozen=True):
    """`dependsOn[]` of a replicated job."""

    name: str = ""
    status: str = ""


class ReplicatedJob(_Object, frozen=True):
    """One entry of `replicatedJobs`."""

    name: str = ""
    group_name: str = ""
    replicas: int | None = None
    template: Job = Job()
    depends_on: tuple[DependsOn, ...] = ()

    @property
    def pod(self) -> PodSpec:
        """The spec of its pods."""
        return self.template.spec.template.spec

    @property
    def labels(self) -> Texts:
        """The labels of its Job template, where Trainer puts its ancestor label."""
        return self.template.metadata.labels

    @property
    def is_model_initializer(self) -> bool:
        """Whether Trainer downloads a model with it."""
        return self.labels.get(names.ANCESTOR_LABEL) == "model-initializer"

    @property
    def jobs(self) -> int:
        """The number of its Jobs; JobSet's default is 1."""
        return 1 if self.replicas is None else max(self.replicas, 0)

    @property
    def at_once(self) -> int:
        """The pods of each of its Jobs that run at the same time (kubernetes `pkg/controller/job`, wantActive)."""
        spec = self.template.spec
        running = 1 if spec.parallelism is None else max(spec.parallelism, 0)
        return running if spec.completions is None else min(running, max(spec.completions, 0))

    @property
    def takes_turns(self) -> bool:
        """Whether more pods have to complete than run at once, so that some start only when others have ended."""
        completions = self.template.spec.completions
        return completions is not None and 0 < self.at_once < completions


class Network(_Object, frozen=True):
    """`network` of a JobSet."""

    subdomain: str = ""
    enable_dns_hostnames: bool | None = msgspec.field(name="enableDNSHostnames", default=None)
    publish_not_ready_addresses: bool | None = None


class Coordinator(_Object, frozen=True):
    """`coordinator` of a JobSet."""

    replicated_job: str = ""
    job_index: int = 0
    pod_index: int = 0


class StorageRequests(_Object, frozen=True):
    """`resources` of a claim for a volume."""

    requests: Amounts = {}


class ClaimSpec(_Object, frozen=True):
    """`spec` of a claim for a volume."""

    access_modes: tuple[str, ...] = ()
    resources: StorageRequests = StorageRequests()


class ClaimTemplate(_Object, frozen=True):
    """`volumeClaimPolicies[].templates[]`."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()


class VolumeClaimPolicy(_Object, frozen=True):
    """`volumeClaimPolicies[]`."""

    templates: tuple[ClaimTemplate, ...] = ()


class SuccessPolicy(_Object, frozen=True):
    """`successPolicy` of a JobSet; no target means every replicated job."""

    operator: str = "All"
    target_replicated_jobs: tuple[str, ...] = ()


class FailureRule(_Object, frozen=True):
    """`failurePolicy.rules[]`."""

    name: str = ""
    action: str = ""
    on_job_failure_reasons: tuple[str, ...] = ()
    target_replicated_jobs: tuple[str, ...] = ()


class FailurePolicy(_Object, frozen=True):
    """`failurePolicy` of a JobSet."""

    restart_strategy: str = ""
    rules: tuple[FailureRule, ...] = ()


class StartupPolicy(_Object, frozen=True):
    """`startupPolicy` of a JobSet."""

    startup_policy_order: str = ""


class JobSetSpec(_Object, frozen=True):
    """`spec` of a JobSet."""

    network: Network = Network()
    coordinator: Coordinator | None = None
    success_policy: SuccessPolicy = SuccessPolicy()
    failure_policy: FailurePolicy = FailurePolicy()
    startup_policy: StartupPolicy = StartupPolicy()
    managed_by: str = ""
    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    volume_claim_policies: tuple[VolumeClaimPolicy, ...] = ()


class JobSet(_Object, frozen=True):
    """A JobSet (`jobset.x-k8s.io/v1alpha2`)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSetSpec = JobSetSpec()


class RuntimeRef(_Object, frozen=True):
    """`spec.runtimeRef` of a TrainJob."""

    name: str = ""
    kind: str = "ClusterTrainingRuntime"
    api_group: str | None = None


class Trainer(_Object, frozen=True):
    """`spec.trainer` of a TrainJob: `command` and `args` replace the runtime's."""

    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] = ()
    num_nodes: int | None = None
    num_proc_per_node: int | str | None = None
    resources_per_node: Resources | None = None
    resource_claims_per_node: tuple[PodClaim, ...] = ()


class JobSetTemplate(_Object, frozen=True):
    """`spec.template` of a runtime, or what a patch writes into it."""

    metadata: TemplateMeta = TemplateMeta()
    spec: JobSetSpec = JobSetSpec()


class PatchedRuntime(_Object, frozen=True):
    """`runtimePatches[].trainingRuntimeSpec`."""

    template: JobSetTemplate = JobSetTemplate()


class RuntimePatch(_Object, frozen=True):
    """`spec.runtimePatches[]`: who patches the runtime of one TrainJob, and how."""

    manager: str = ""
    training_runtime_spec: PatchedRuntime = PatchedRuntime()


class PodTemplateOverride(_Object, frozen=True):
    """`spec.podTemplateOverrides[]`, as older Trainers have it."""

    target_jobs: tuple[Named, ...] = ()
    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()


class PodSpecOverride(PodSpec, frozen=True):
    """`spec.podSpecOverrides[]`, as still older Trainers have it."""

    target_jobs: tuple[Named, ...] = ()


class InitializerSource(_Object, frozen=True):
    """`spec.initializer.dataset` and `spec.initializer.model`."""

    storage_uri: str = ""
    env: tuple[EnvVar, ...] = ()


class Initializer(_Object, frozen=True):
    """`spec.initializer` of a TrainJob."""

    dataset: InitializerSource | None = None
    model: InitializerSource | None = None


class TrainJobSpec(_Object, frozen=True):
    """`spec` of a TrainJob."""

    runtime_ref: RuntimeRef = RuntimeRef()
    trainer: Trainer = Trainer()
    initializer: Initializer = Initializer()
    runtime_patches: tuple[RuntimePatch, ...] = ()
    pod_template_overrides: tuple[PodTemplateOverride, ...] = ()
    pod_spec_overrides: tuple[PodSpecOverride, ...] = ()


class TrainJob(_Object, frozen=True):
    """A TrainJob (`trainer.kubeflow.org/v1alpha1`)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TrainJobSpec = TrainJobSpec()


class Metric(_Object, frozen=True):
    """`status.trainerStatus.metrics[]`."""

    name: str = ""
    value: str = ""


class TrainerStatus(_Object, frozen=True):
    """`status.trainerStatus` of a TrainJob: what its training posted."""

    progress_percentage: int | None = None
    estimated_remaining_seconds: int | None = None
    metrics: tuple[Metric, ...] = ()
    last_updated_time: str = ""


class Range(_Object, frozen=True):
    """`uniform` and `logUniform` of a search space: numbers as texts, drawn between two."""

    min: str = ""
    max: str = ""
    type: str = "Float"


class Choices(_Object, frozen=True):
    """`categorical` of a search space."""

    choices: tuple[str, ...] = ()


class SearchSpace(_Object, frozen=True):
    """`parameters[].searchSpace`, of which one member is set."""

    uniform: Range | None = None
    log_uniform: Range | None = None
    categorical: Choices = Choices()


class Parameter(_Object, frozen=True):
    """`spec.parameters[]` of an OptimizationJob."""

    name: str = ""
    search_space: SearchSpace = SearchSpace()


class TrainJobTemplate(_Object, frozen=True):
    """`spec.trainJobTemplate`, which is judged as the TrainJobs that are made of it."""

    metadata: Anything = {}
    spec: Anything = {}


class OptimizationJobSpec(_Object, frozen=True):
    """`spec` of an OptimizationJob."""

    parameters: tuple[Parameter, ...] = ()
    train_job_template: TrainJobTemplate = TrainJobTemplate()


class OptimizationJob(_Object, frozen=True):
    """An OptimizationJob (`trainer.kubeflow.org/v1alpha1`)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: OptimizationJobSpec = OptimizationJobSpec()


class InjectionTarget(_Object, frozen=True):
    """`envInjection.targets[]`: containers of one replicated job that get the env of a training."""

    job_name: str = ""
    container_names: tuple[str, ...] = ()


class EnvInjection(_Object, frozen=True):
    """`envInjection`."""

    targets: tuple[InjectionTarget, ...] = ()


class TorchPolicy(_Object, frozen=True):
    """`mlPolicy.torch`; a number of processes may be a word in a runtime of an older Trainer."""

    num_proc_per_node: int | str | None = None
    env_injection: EnvInjection = EnvInjection()


class MPIPolicy(_Object, frozen=True):
    """`mlPolicy.mpi`."""

    num_proc_per_node: int | None = None
    run_launcher_as_node: bool | None = None
    mpi_implementation: str = "OpenMPI"


class MLPolicy(_Object, frozen=True):
    """`spec.mlPolicy` of a runtime."""

    num_nodes: int | None = None
    torch: TorchPolicy | None = None
    mpi: MPIPolicy | None = None
    flux: Anything | None = None
    jax: Anything | None = None
    xgboost: Anything | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the plugins that it is for; Trainer's CRD allows one."""
        return tuple(each for each in self.__struct_fields__[1:] if getattr(self, each) is not None)


class RuntimeSpec(_Object, frozen=True):
    """`spec` of a runtime."""

    ml_policy: MLPolicy = MLPolicy()
    pod_group_policy: Anything = {}
    template: JobSetTemplate = JobSetTemplate()


class Runtime(_Object, frozen=True):
    """A TrainingRuntime, a ClusterTrainingRuntime, or the snapshot of one."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RuntimeSpec = RuntimeSpec()


class Namespace(_Object, frozen=True):
    """A Namespace."""

    metadata: ObjectMeta = ObjectMeta()


class Taint(_Object, frozen=True):
    """`spec.taints[]` of a Node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(_Object, frozen=True):
    """`spec` of a Node."""

    taints: tuple[Taint, ...] = ()


class NodeStatus(_Object, frozen=True):
    """`status` of a Node."""

    allocatable: Amounts = {}


class Node(_Object, frozen=True):
    """A Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class DeviceRequest(_Object, frozen=True):
    """`exactly` of a device request, or an entry of its `firstAvailable`."""

    count: int | None = None
    allocation_mode: str = ""
    device_class_name: str = ""


class ClaimRequest(_Object, frozen=True):
    """`devices.requests[]` of a claim."""

    exactly: DeviceRequest | None = None
    first_available: tuple[DeviceRequest, ...] = ()


class ClaimDevices(_Object, frozen=True):
    """`devices` of a claim."""

    requests: tuple[ClaimRequest, ...] = ()


class DeviceClaimSpec(_Object, frozen=True):
    """`spec` of a ResourceClaim."""

    devices: ClaimDevices = ClaimDevices()


class ResourceClaim(_Object, frozen=True):
    """A ResourceClaim (`resource.k8s.io/v1`)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClaimSpec = DeviceClaimSpec()


class ResourceClaimTemplateSpec(_Object, frozen=True):
    """`spec` of a ResourceClaimTemplate."""

    spec: DeviceClaimSpec = DeviceClaimSpec()


class ResourceClaimTemplate(_Object, frozen=True):
    """A ResourceClaimTemplate (`resource.k8s.io/v1`)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(_Object, frozen=True):
    """`spec` of a DeviceClass."""

    extended_resource_name: str = ""


class DeviceClass(_Object, frozen=True):
    """A DeviceClass (`resource.k8s.io/v1`)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


KINDS: Mapping[str, type[_Object]] = {
    "TrainJob": TrainJob,
    "OptimizationJob": OptimizationJob,
    "JobSet": JobSet,
    "TrainingRuntime": Runtime,
    "ClusterTrainingRuntime": Runtime,
    "RuntimeSnapshot": Runtime,
    "Namespace": Namespace,
    "Node": Node,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "ResourceClaim": ResourceClaim,
    "DeviceClass": DeviceClass,
}
