"""Checks of what was installed: the configuration, the Deployment, the Service, the rights of the ServiceAccount."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace

from muster.strategies.documents import paths
from muster.strategies.documents.decoding import items, mapping, member
from muster.webhook import configs, kubeyaml
from muster.webhook.admission.policies import Mode
from muster.webhook.doctor import webhook_entries
from muster.webhook.doctor.diagnoses import INSTALL, Diagnosis, error, ok, warning
from muster.webhook.doctor.expected_state import Right
from muster.webhook.doctor.live_installation import CONFIG_KEY, Document, Installation, Need, Options, allowed

__all__ = [
    "configuration",
    "deployment",
    "owner",
    "rights",
    "service",
]

_SEE_PODS = "see `kubectl -n {0} get pods,events` and `kubectl -n {0} logs deployment/{1}`"
_OWN = "muster"  # in the manifests
_NAMES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("secrets", "muster-ca"): ("tls", "secret", "name"),
    ("leases", "muster-certificates"): ("tls", "secret", "lease", "name"),
    ("leases", "muster-controllers"): ("controllers", "lease", "name"),
    ("leases", "muster-trainings"): ("trainings", "lease", "name"),
}
"""Objects of the manifests that a configuration may rename, each with its key."""


async def configuration(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Read the configuration as `muster serve` does."""
    where = f"ConfigMap {installation.options.namespace}/{installation.options.name}"
    text = await installation.config_text()
    if text is None:
        what = f"{where} has no {CONFIG_KEY}, so the configuration of Muster is not known"
        yield warning(what, INSTALL)
        return
    try:
        config = configs.parse(text.encode(), f"{where}, {CONFIG_KEY}")
    except configs.ConfigError as problem:
        for line in str(problem).splitlines():
            yield error(line, "correct it: Muster keeps the last valid one, and cannot start with this one")
        return
    modes = {"mode": config.mode, **{f"frameworks.{name}.mode": each.mode for name, each in config.frameworks.items()}}
    soft = {key: mode for key, mode in modes.items() if mode is not None and mode is not Mode.ENFORCE}
    for key, mode in soft.items():
        what = f"{key} is {mode.value}: jobs are neither corrected nor refused"
        yield warning(what, "set it to enforce when the trial is over (docs/operate.md#modes)")
    if not soft:
        yield ok(f"{where} is valid for this version, and its mode is enforce")


async def owner(installation: Installation) -> Document | None:
    """Return Muster's Deployment."""
    options = installation.options
    return await installation.get(f"/apis/apps/v1/namespaces/{options.namespace}/deployments/{options.name}")


async def deployment(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Read the Deployment and the PodDisruptionBudgets."""
    options, found = installation.options, await owner(installation)
    where, todo = f"{options.namespace}/{options.name}", _SEE_PODS.format(options.namespace, options.name)
    if found is None:
        if await webhook_entries.is_elsewhere(installation):
            yield ok(webhook_entries.ELSEWHERE)
        else:
            what = f"Deployment {where} does not exist, so Muster does not answer the API server"
            yield error(what, "install Muster, or name its namespace and name (--namespace, --name)")
        return
    wanted, status = int(found["spec"].get("replicas", 1)), member(found, "status")
    ready, current = int(status.get("readyReplicas") or 0), int(status.get("updatedReplicas") or 0)
    if not wanted:
        what = f"Deployment {where} is scaled to 0 replicas, so no job can be created"
        yield error(what, f"kubectl -n {options.namespace} scale deployment {options.name} --replicas=2")
        return
    if not ready:
        yield error(f"none of the {wanted} replicas is ready, so no job can be created", todo)
    elif ready < wanted:
        yield warning(f"{ready} of {wanted} replicas are ready", todo)
    if ready and current < wanted:
        yield warning(f"{current} of {wanted} replicas are of the newest version", todo)
    if wanted == 1:
        what = "there is only one replica: while its Kubernetes node is drained or lost, no job can be created"
        yield warning(what, "run two replicas (docs/install.md)")
        return
    if ready == wanted == current:
        yield ok(f"{ready} of {wanted} replicas are ready")
    path = f"/apis/policy/v1/namespaces/{options.namespace}/poddisruptionbudgets"
    for each in _budgeted(found, await installation.list(path), wanted):
        yield each


def _budgeted(found: Document, budgets: list[Document], wanted: int) -> Iterator[Diagnosis]:
    labels = member(found, "spec", "template", "metadata", "labels")
    chosen = [(each, each["spec"].get("selector")) for each in budgets]
    ours = [each for each, selector in chosen if selector is not None and webhook_entries.selects(selector, labels)]
    if not ours:
        what = f"no PodDisruptionBudget covers the {wanted} replicas, so a drain may take all of them at once"
        yield warning(what, "add one with maxUnavailable 1 (docs/install.md)")
    for each in ours:
        status = member(each, "status")
        healthy, enough = int(status.get("currentHealthy") or 0), int(status.get("expectedPods") or wanted)
        if healthy >= enough and not status.get("disruptionsAllowed"):
            name = each["metadata"]["name"]
            what = f"PodDisruptionBudget {name} allows no disruption, so Kubernetes nodes cannot be drained"
            yield warning(what, "set maxUnavailable 1 there")


async def service(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Read the Service and its EndpointSlices."""
    options, where = installation.options, f"Service {installation.options.namespace}/{installation.options.name}"
    found = await installation.get(f"/api/v1/namespaces/{options.namespace}/services/{options.name}")
    if await webhook_entries.is_elsewhere(installation):
        yield ok(webhook_entries.ELSEWHERE)
        return
    if found is None:
        yield error(f"{where} does not exist, so the API server cannot reach Muster", INSTALL)
        return
    called = [member(entry, "clientConfig", "service") for _, entry in await webhook_entries.all_of(installation)]
    ports = {int(each.get("port") or 443) for each in called}
    served = {int(port["port"]) for port in items(found["spec"], "ports")}
    for port in sorted(ports - served):
        yield error(f"webhook entries call port {port}, but {where} has {', '.join(map(str, sorted(served)))}", INSTALL)
    path = f"/apis/discovery.k8s.io/v1/namespaces/{options.namespace}/endpointslices"
    slices = await installation.list(path, labelSelector=f"kubernetes.io/service-name={options.name}")
    points = [point for each in slices for point in items(each, "endpoints")]
    ready = [point for point in points if member(point, "conditions").get("ready") is not False]
    if not ready:
        what = f"{where} has no ready address ({len(points)} in all), so no job can be created"
        yield error(what, _SEE_PODS.format(options.namespace, options.name))
    elif served >= ports:
        yield ok(f"{where} has {len(ready)} ready address{'es' if len(ready) > 1 else ''}")


async def rights(installation: Installation) -> AsyncIterator[Diagnosis]:
    """Check every permission of the ServiceAccount that the configuration needs."""
    options = installation.options
    config = _raw(await installation.config_text() or "")
    wanted = [_renamed(right, config, options) for right in installation.base.rights if right.is_needed(config)]
    everywhere = (await installation.configured()).cluster.namespaces or ("",)
    asked = [(each, space) for each in wanted for space in ((options.namespace,) if each.own else everywhere)]
    needed = [Need(each.verb, each.resource, each.group, space, each.name) for each, space in asked]
    answers = await asyncio.gather(*(allowed(installation, need) for need in needed))
    verbs: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (right, space), granted in zip(asked, answers, strict=True):
        if not granted:
            where = f" in {space}" if space and not right.own else ""
            verbs[right.subject + where, right.option].append(right.verb)
    for (subject, option), lacked in verbs.items():
        need = f", which {'.'.join(option)} needs" if option else ""
        what = f"{options.account} may not {', '.join(lacked)} {subject}{need}"
        yield error(what, "apply the roles and bindings of this version again (docs/install.md)")
    if not verbs:
        yield ok(f"{options.account} has all {len(wanted)} permissions that it needs")


def _renamed(right: Right, config: Mapping[str, object], options: Options) -> Right:
    """Return the permission with the name that the object has in this configuration and installation."""
    if right.name == _OWN:
        return replace(right, name=options.name)
    key = _NAMES.get((right.resource, right.name))
    found = paths.lookup(config, key) if key else None
    return replace(right, name=found) if isinstance(found, str) else right


def _raw(text: str) -> Mapping[str, object]:
    """Return the configuration as YAML, so that keys of other versions count too; {} when it is not an object."""
    try:
        return mapping(kubeyaml.load(text))
    except kubeyaml.YamlError:
        return {}
