from __future__ import annotations

import pytest

from muster.webhook import configs
from muster.webhook.controllers import collecting, controller_service
from muster.webhook.server.services import Service


def parsed(text):
    return configs.parse(text.encode(), "muster.yaml")


def test_the_controllers_are_off_until_they_are_switched_on():
    assert not configs.Config().controllers.enabled


def test_what_the_file_says_is_what_the_controllers_do():
    text = "controllers: {enabled: true, grace: 5, resync: 7, deadline: 2, endedPods: null, lease: {name: x, retry: 1}}"
    config = parsed(f"{text}\ncluster: {{cacheLimit: 20000000, namespaces: [team-a]}}")
    options = controller_service.options_of(config.controllers, config.cluster)
    assert (options.grace, options.resync, options.deadline, options.ended_pods) == (5, 7, 2, None)
    assert (options.room, options.namespaces) == (20000000, ("team-a",))
    assert (options.terms.name, options.terms.retry, options.terms.duration) == ("x", 1, 15)


def test_what_the_file_says_of_trainings_is_what_is_kept():
    text = "trainings: {enabled: true, deadline: 2, lease: {name: x}}\ncluster: {namespaces: [team-a, team-b]}"
    options = collecting.options_of(parsed(text).trainings, parsed(text).cluster)
    assert (options.deadline, options.terms.name, options.room) == (2, "x", 160 * 1024 * 1024)
    assert options.namespaces == ("team-a", "team-b")
    assert not configs.Config().trainings.enabled
    assert configs.Config().trainings.lease.name == "muster-trainings"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("controllers: {lease: {retry: 10}}", "controllers.lease: .*each must be less than the next"),
        ("controllers: {lease: {duration: 5}}", "controllers.lease: .*deadline 10.0, duration 5.0"),
        ("controllers: {grace: -1}", "controllers.grace: -1"),
        ("controllers: {lease: {name: Not_A_Name}}", "controllers.lease.name: 'Not_A_Name'"),
        ("trainings: {lease: {retry: 10}}", "trainings.lease: .*each must be less than the next"),
        ("trainings: {enable: true}", "trainings.enable: is not a key"),
        ("controllers: {enable: true}", "controllers.enable: is not a key"),
    ],
)
def test_what_cannot_work_is_refused_by_its_path(text, said):
    with pytest.raises(configs.ConfigError, match=said):
        parsed(text)


def without_a_cluster(folder, text):
    tls = f"{{selfSigned: true, directory: {folder}}}"
    server = "{host: 127.0.0.1, port: 0, readinessDelay: 0}"
    return parsed(f"{text}\ncluster: {{source: files, files: []}}\ntls: {tls}\nserver: {server}\n")


@pytest.mark.parametrize("section", ["controllers", "trainings"])
async def test_what_writes_is_refused_without_an_api_server(tmp_path, section):
    with pytest.raises(configs.ConfigError, match=rf"{section}\.enabled: true needs cluster\.source: live"):
        await Service(without_a_cluster(tmp_path, f"{section}: {{enabled: true}}")).start()


async def test_profiles_whose_claims_nobody_makes_are_pointed_out_at_the_start(tmp_path, caplog):
    service = Service(without_a_cluster(tmp_path, "profiles: {gpu: {deviceClass: gpu.example.com}}"))
    await service.start()
    await service.stop()
    assert "Muster does not make their claims" in caplog.text
