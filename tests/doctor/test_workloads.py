"""Who answers: replicas, what a drain may do to them, the Service, and what each replica says of itself."""

from __future__ import annotations

import pytest

from tests.doctor import worlds

OLD = 'muster_cluster_cache_age_seconds{kind="TrainJob"} 12.0'


def status(world, **changes):
    world.objects[worlds.DEPLOYMENT]["status"].update(changes)


def budget(world):
    return world.objects[worlds.BUDGETS]["items"][0]


SPOILT = {
    "no Deployment": (
        lambda w: w.objects.pop(worlds.DEPLOYMENT),
        "error deployment: Deployment muster-system/muster does not exist",
    ),
    "scaled to nothing": (
        lambda w: w.objects[worlds.DEPLOYMENT]["spec"].update(replicas=0),
        "error deployment: Deployment muster-system/muster is scaled to 0 replicas",
    ),
    "nobody ready": (lambda w: status(w, readyReplicas=0), "error deployment: none of the 2 replicas is ready"),
    "one ready": (lambda w: status(w, readyReplicas=1), "warning deployment: 1 of 2 replicas are ready"),
    "a rollout that stands": (
        lambda w: status(w, updatedReplicas=1),
        "warning deployment: 1 of 2 replicas are of the newest version",
    ),
    "one replica": (
        lambda w: w.objects.update({worlds.DEPLOYMENT: worlds.deployment("muster", "muster-webhook:1", 1)}),
        "warning deployment: there is only one replica",
    ),
    "no budget": (lambda w: w.objects[worlds.BUDGETS].update(items=[]), "warning deployment: no PodDisruptionBudget"),
    "a budget of others": (
        lambda w: budget(w)["spec"].update(selector={"matchLabels": {"app": "other"}}),
        "warning deployment: no PodDisruptionBudget covers the 2 replicas",
    ),
    "a budget without a selector": (
        lambda w: budget(w)["spec"].pop("selector"),
        "warning deployment: no PodDisruptionBudget covers",
    ),
    "a budget that blocks drains": (
        lambda w: budget(w)["status"].update(disruptionsAllowed=0),
        "warning deployment: PodDisruptionBudget muster allows no disruption",
    ),
    "no Service": (
        lambda w: w.objects.pop(worlds.SERVICE),
        "error service: Service muster-system/muster does not exist",
    ),
    "another port": (
        lambda w: w.objects[worlds.SERVICE]["spec"].update(ports=[{"port": 8443}]),
        "error service: webhook entries call port 443, but Service muster-system/muster has 8443",
    ),
    "no slices": (
        lambda w: w.objects[worlds.SLICES].update(items=[]),
        "error service: Service muster-system/muster has no",
    ),
    "no ready address": (
        lambda w: w.objects[worlds.SLICES].update(items=[{"endpoints": [{"conditions": {"ready": False}}]}]),
        "error service: Service muster-system/muster has no ready address (1 in all)",
    ),
}


@pytest.mark.parametrize(("spoil", "said"), SPOILT.values(), ids=SPOILT)
async def test_what_keeps_muster_from_answering_is_found(world, examine, spoil, said):
    spoil(world)
    found = await examine(said.split()[1].rstrip(":"))
    assert found[0].startswith(said)


@pytest.mark.parametrize("point", [{}, {"conditions": {}}, {"conditions": {"ready": None}}])
async def test_an_address_of_which_nothing_is_known_counts_as_ready(world, examine, point):
    world.objects[worlds.SLICES]["items"] = [{"endpoints": [point]}]
    assert await examine("service") == ["ok service: Service muster-system/muster has 1 ready address; "]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda w: w.texts.update({worlds.proxied("muster-b", "readyz"): (503, "cluster: TrainJob: no contact\n")}),
            "error replicas: replica muster-b is not ready: HTTP 503: cluster: TrainJob: no contact; kubectl",
        ),
        (
            lambda w: w.texts.update({worlds.proxied("muster-b", "metrics"): (404, "gone")}),
            "unknown replicas: the metrics of replica muster-b cannot be read: HTTP 404",
        ),
        (
            lambda w: w.texts.update({worlds.proxied("muster-b", "metrics"): (200, "<html>")}),
            "unknown replicas: the metrics of replica muster-b cannot be read",
        ),
    ],
    ids=["not ready", "no metrics", "no exposition"],
)
async def test_a_replica_that_is_not_well_is_named_beside_those_that_are(world, examine, spoil, said):
    spoil(world)
    first, second = await examine("replicas")
    assert first.startswith(said)
    assert second.startswith("ok replicas: replica muster-a is ready")


METRICS = {
    "an expired certificate": (
        'muster_certificate_expiry_seconds{certificate="leaf"} -7200.0',
        "error replicas: replica muster-a: its leaf certificate expired 2.0 hours ago",
    ),
    "a certificate near its end": (
        'muster_certificate_expiry_seconds{certificate="authority"} 864000.0',
        "warning replicas: replica muster-a: its authority certificate expires in 10.0 days",
    ),
    "a silent watch": (
        'muster_cluster_cache_age_seconds{kind="Namespace"} 131.0',
        "warning replicas: replica muster-a has had no news of Namespace for 131 s",
    ),
    "lost records": (
        'muster_audit_problems_total{kind="dropped"} 3.0\nmuster_audit_problems_total{kind="sink"} 2.0',
        "warning replicas: replica muster-a: 5 audit records were lost or written elsewhere",
    ),
    "failing strategies": (
        'muster_plugin_failures_total{framework="x"} 1.0',
        "warning replicas: replica muster-a: 1 calls of strategies failed",
    ),
    "a refused configuration": (
        'muster_config_reloads_total{outcome="refused"} 1.0',
        "warning replicas: replica muster-a: 1 changed configurations were refused",
    ),
}


@pytest.mark.parametrize(("metrics", "said"), METRICS.values(), ids=METRICS)
async def test_what_the_metrics_of_a_replica_say_is_told(world, examine, metrics, said):
    world.texts[worlds.proxied("muster-a", "metrics")] = (200, f"{metrics}\n")
    assert (await examine("replicas"))[0].startswith(said)


@pytest.mark.parametrize(
    "metrics",
    ['muster_config_reloads_total{outcome="taken"} 9.0', 'muster_audit_problems_total{kind="dropped"} 0.0', ""],
)
async def test_what_is_well_is_no_finding(world, examine, metrics):
    world.texts[worlds.proxied("muster-a", "metrics")] = (200, f"{metrics}\n")
    assert [line.split()[0] for line in await examine("replicas")] == ["ok", "ok"]


async def test_certificates_that_renew_themselves_are_not_warned_about(world, examine):
    world.configure("tls: {secret: {}}")
    metrics = 'muster_certificate_expiry_seconds{certificate="leaf"} 3600.0\n'
    world.texts[worlds.proxied("muster-a", "metrics")] = (200, metrics)
    assert [line.split()[0] for line in await examine("replicas")] == ["ok", "ok"]


@pytest.mark.parametrize(("leading", "told"), [((1, 0), []), ((0, 0), ["0 replicas"]), ((1, 1), ["2 replicas"])])
async def test_one_replica_leads_the_controllers(world, examine, leading, told):
    world.configure("controllers: {enabled: true}")
    for pod, value in zip(worlds.REPLICAS, leading, strict=True):
        text = f'muster_controller_leading{{lease="muster-controllers"}} {value}.0\n'
        world.texts[worlds.proxied(pod, "metrics")] = (200, text)
    found = [line.split(": ")[1] for line in await examine("replicas") if line.startswith("warning")]
    assert [line.partition(" report")[0] for line in found] == told


async def test_a_replica_that_is_on_its_way_out_is_not_asked(world, examine):
    world.objects[worlds.PODS]["items"][1]["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:00Z"
    world.texts.clear()
    world.texts[worlds.proxied("muster-a", "readyz")] = (200, "ok\n")
    world.texts[worlds.proxied("muster-a", "metrics")] = (200, worlds.METRICS)
    assert len(await examine("replicas")) == 1


async def test_many_replicas_are_asked_up_to_a_limit(world, examine):
    world.objects[worlds.PODS]["items"] = [worlds.pod(f"muster-{number}") for number in range(40)]
    await examine("replicas")
    assert len({path for _, path, _ in world.seen if path.endswith("/proxy/readyz")}) == 16


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: enforce\n", "ok configuration: ConfigMap muster-system/muster is valid for this version"),
        ("mode: audit\n", "warning configuration: mode is audit: jobs are neither corrected nor refused"),
        ("frameworks: {trl: {mode: off}}\n", "warning configuration: frameworks.trl.mode is off"),
        ("mod: warn\n", "error configuration: ConfigMap muster-system/muster, muster.yaml: mod: is not a key"),
        ("a: [", "error configuration: ConfigMap muster-system/muster, muster.yaml: line 2: is not YAML"),
    ],
)
async def test_the_configuration_is_read_as_the_service_reads_it(world, examine, text, said):
    world.configure(text)
    (line,) = await examine("configuration")
    assert line.startswith(said)


@pytest.mark.parametrize("data", [None, {}, {"other.yaml": ""}])
async def test_a_configuration_that_is_not_there_is_told(world, examine, data):
    world.objects[worlds.CONFIGMAP] = {"data": data}
    (line,) = await examine("configuration")
    assert line.startswith("warning configuration: ConfigMap muster-system/muster has no muster.yaml")
