"""A trainer has its sampler serve the adapters that requests may name: no fewer, no more, also after a restart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as drawn

from muster_weights import adapters, readings
from muster_weights.refusals import Missing, Refused
from muster_weights.sampler.copies import Copies
from muster_weights.trainer.adapters import AdapterSync
from muster_weights.trainer.settings import Settings
from tests.weights.adapters import CONFIG, matrices
from tests.weights.versions import place

HELD = 3


class Sampler:
    """The routes of a sampler, in front of its real copies."""

    url = "http://sampler"

    def __init__(self, root, folder):
        self._root, self._folder = root, folder
        self.paused = True
        self.most = 0
        self.start()

    def start(self):
        """Begin as a new process does: with nothing."""
        self._folder = self._folder.with_name(f"{self._folder.name}-")
        self._copies = Copies(self._root, self._folder)
        self.served = []

    def renew(self, run, seconds):
        assert run.startswith("run-")
        assert seconds == Settings(self._root).lease
        return {**self._copies.told(), "adapters": list(self.served)}

    def bind(self, run):
        self._copies.bind(run)

    def loaded(self, told):
        found = self._copies.copy(told)
        if found["state"] in ("missing", "refused"):
            raise (Missing if found["state"] == "missing" else Refused)(found["reason"])
        if found["state"] != "copied":
            return False
        self._copies.served = told
        self.served.append(adapters.name_of(told))
        self.most = max(self.most, len(self.served))
        return True

    def keep(self, run, oldest):
        self.served = [each for each in self.served if int(each.removeprefix(f"{run}-v")) >= oldest]

    def is_paused(self):
        return self.paused

    def resume(self):
        self.paused = False

    def close(self):
        self._copies.close()


@pytest.fixture
def root(tmp_path):
    return tmp_path / "shared"


@pytest.fixture
def sampler(root, tmp_path):
    made = Sampler(root, tmp_path / "copies")
    yield made
    made.close()


class Ended(Exception):  # noqa: N818  # what happened
    """What a training would end with."""


def ending(reason):
    raise Ended(reason)


@pytest.fixture
def sync(root, sampler):
    made = AdapterSync(sampler.url, Settings(root, deadline=1), ending, HELD)
    made.server = sampler
    return made


def publish(sync, version):
    sync.publish(adapters.packed(CONFIG, matrices(version)), version)


def names(sync, *versions):
    return [f"{sync.run}-v{version}" for version in versions]


def folders_of(sync, root):
    return [int(each.name[1:]) for each in sorted((root / sync.run).iterdir())]


def test_as_many_versions_are_served_as_requests_may_name_and_older_ones_go(sync, sampler, root):
    for version in range(1, 6):
        publish(sync, version)

    assert sampler.served == names(sync, 3, 4, 5)
    assert sampler.most == HELD, "a sampler has room for no more, and would evict one that is asked"
    assert folders_of(sync, root) == [3, 4, 5]
    assert sync.adapter == f"{sync.run}-v5"
    assert readings.current(root).version == 5
    assert not sampler.paused, "what a dead trainer left paused goes on"


def test_a_sampler_that_was_started_again_gets_all_that_may_be_named(sync, sampler):
    for version in range(1, 6):
        publish(sync, version)
    sampler.start()

    sync.ensure()

    assert sampler.served == names(sync, 3, 4, 5)


def test_a_run_goes_on_counting_where_its_checkpoint_ended(sync, sampler):
    publish(sync, 38)
    assert sampler.served == names(sync, 38)


def test_a_version_that_is_not_higher_is_refused_and_not_published(sync, sampler, root):
    publish(sync, 2)
    for version in (1, 2):
        with pytest.raises(Refused, match="publish a higher version"):
            publish(sync, version)
    assert folders_of(sync, root) == [2]
    assert sampler.served == names(sync, 2)


def test_an_adapter_that_the_sampler_refuses_ends_the_training_with_the_reason(sync, sampler, root, monkeypatch):
    publish(sync, 1)
    whole = sampler.loaded

    def torn(told):
        data = place(root, told) / "weights.bin"
        data.write_bytes(data.read_bytes()[:-4])
        return whole(told)

    monkeypatch.setattr(sampler, "loaded", torn)
    with pytest.raises(Ended, match=r"did not take .*/2, and goes on with what it has: .* it is torn"):
        publish(sync, 2)
    assert sampler.served == names(sync, 1)


@settings(max_examples=15, deadline=None)
@given(events=drawn.lists(drawn.sampled_from(["publish", "restart"]), max_size=12), held=drawn.integers(2, 4))
def test_after_every_version_the_newest_ones_are_served_whenever_the_sampler_was_started_again(
    tmp_path_factory, events, held
):
    folder = tmp_path_factory.mktemp("run")
    sampler = Sampler(folder / "shared", folder / "copies")
    sync = AdapterSync(sampler.url, Settings(folder / "shared", deadline=1), ending, held)
    sync.server = sampler
    version = 0
    for event in events:
        if event == "restart":
            sampler.close()
            sampler.start()
            continue
        version += 1
        publish(sync, version)
        assert sampler.served == names(sync, *range(max(1, version - held + 1), version + 1))
        assert sampler.most <= held
    sampler.close()
