"""Whether the nodes of a job can look each other up, and connect: resolvers of pods, interfaces of NCCL and Gloo."""

from __future__ import annotations

import pytest

from tests.jobsets.sets import TORCHRUN, container, decided, jobset, part, training

RESOLVER, INTERFACE = "core/resolver", "core/interface"


def found(document, rule):
    return [each.severity.value for each in decided(document)[1] if each.rule == rule]


def on(pod, *command, pods=2):
    return jobset(part("node", container(*(command or TORCHRUN), gpus=8), pods=pods, pod=pod))


BLIND = {
    "the network of the machine": {"hostNetwork": True},
    "the same, written out": {"hostNetwork": True, "dnsPolicy": "ClusterFirst"},
    "the resolver of the machine": {"dnsPolicy": "Default"},
    "the same with an option": {"dnsPolicy": "Default", "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}},
}


@pytest.mark.parametrize("pod", BLIND.values(), ids=BLIND)
def test_pods_that_ask_the_resolver_of_their_machine_find_no_coordinator(pod):
    assert found(on(pod), RESOLVER) == ["error"]


def test_pods_with_their_own_resolvers_and_no_search_domain_probably_find_none():
    assert found(on({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["8.8.8.8"]}}), RESOLVER) == ["warning"]


SEEING = {
    "nothing": {},
    "the resolver of the cluster": {"dnsPolicy": "ClusterFirst"},
    "the resolver of the cluster on the network of the machine": {
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
    },
    "a resolver of its own beside that of the machine": {
        "dnsPolicy": "Default",
        "dnsConfig": {"nameservers": ["10.96.0.10"]},
    },
    "a search domain": {
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.96.0.10"], "searches": ["team-a.svc.cluster.local"]},
    },
}


@pytest.mark.parametrize("pod", SEEING.values(), ids=SEEING)
def test_pods_that_ask_the_cluster_are_silent(pod):
    assert found(on(pod), RESOLVER) == []


def test_one_node_asks_nobody():
    assert found(on({"hostNetwork": True}, pods=1), RESOLVER) == []


@pytest.mark.parametrize("flag", ["--rdzv-endpoint=10.0.0.7:29500", "--rdzv-endpoint=head.example.org:29500"])
def test_an_address_of_the_jobs_own_is_not_looked_up_in_the_cluster(flag):
    assert found(on({"hostNetwork": True}, "torchrun", "--rdzv-backend=c10d", flag, "train.py"), RESOLVER) == []


def test_an_address_that_is_the_coordinators_is():
    address = "--master-addr=$(MASTER_ADDR)"
    assert found(on({"hostNetwork": True}, "torchrun", address, "train.py"), RESOLVER) == ["error"]


@pytest.mark.parametrize("value", ["lo", "=lo", " lo ", "lo,lo0"])
def test_nccl_on_loopback_reaches_no_other_node(value):
    assert found(jobset(training("node", pods=2, env={"NCCL_SOCKET_IFNAME": value})), INTERFACE) == ["error"]


@pytest.mark.parametrize("value", ["", "^lo", "^lo,docker0", "eth0", "=eth0", "lo,eth0", "local"])
def test_other_interfaces_are_silent(value):
    assert found(jobset(training("node", pods=2, env={"NCCL_SOCKET_IFNAME": value})), INTERFACE) == []


def test_one_node_may_use_its_loopback():
    assert found(jobset(training("node", pods=1, env={"NCCL_SOCKET_IFNAME": "lo"})), INTERFACE) == []


def test_a_shell_that_exports_the_loopback_is_read():
    text = "export NCCL_SOCKET_IFNAME=lo; torchrun train.py"
    assert found(jobset(training("node", "bash", "-c", text, pods=2)), INTERFACE) == ["error"]


def test_gloo_matters_on_cpu_and_nccl_does_not():
    def cpu(name):
        return jobset(training("node", gpus=0, pods=2, env={name: "lo"}))

    assert found(cpu("GLOO_SOCKET_IFNAME"), INTERFACE) == ["error"]
    assert found(cpu("NCCL_SOCKET_IFNAME"), INTERFACE) == []
    assert found(jobset(training("node", pods=2, env={"GLOO_SOCKET_IFNAME": "lo"})), INTERFACE) == ["warning"]


@pytest.mark.parametrize(
    ("value", "ends"), [("127.0.0.1:4000", ["warning"]), ("localhost:1", ["warning"]), ("a:4000", [])]
)
def test_the_first_rank_of_nccl_is_not_on_the_loopback(value, ends):
    assert found(jobset(training("node", pods=2, env={"NCCL_COMM_ID": value})), INTERFACE) == ends


@pytest.mark.parametrize(("kind", "ends"), [("c10d", ["error"]), ("static", [])])
def test_the_first_node_does_not_tell_the_others_of_its_loopback(kind, ends):
    endpoint = "--rdzv-endpoint=set-node-0-0.set:29400"
    words = ("torchrun", f"--rdzv-backend={kind}", endpoint, "--local-addr=localhost", "train.py")
    assert found(jobset(training("node", *words, pods=2)), "core/loopback") == ends


@pytest.mark.parametrize(("status", "ends"), [("Complete", ["error"]), ("Ready", [])])
def test_a_training_does_not_wait_for_the_end_of_a_server(status, ends):
    judge = part("judge", container("vllm", "serve", "m", gpus=1))
    document = jobset(judge, {**training("node", pods=2), "dependsOn": [{"name": "judge", "status": status}]})
    assert found(document, "core/start-order") == ends


@pytest.mark.parametrize("command", [("vllm", "run-batch", "-i", "a"), ("bash", "-c", "vllm serve m & python ask.py")])
def test_a_training_may_wait_for_a_program_that_ends_with_its_server(command):
    judge = part("judge", container(*command, gpus=1))
    document = jobset(judge, {**training("node", pods=2), "dependsOn": [{"name": "judge", "status": "Complete"}]})
    assert found(document, "core/start-order") == []


@pytest.mark.parametrize(("status", "ends"), [("Complete", ["error"]), ("Ready", [])])
def test_nodes_do_not_wait_for_the_end_of_their_own_training(status, ends):
    leader, worker = training("leader"), training("worker")
    document = jobset(leader, {**worker, "dependsOn": [{"name": "leader", "status": status}]})
    assert found(document, "core/start-order") == ends


def test_a_training_may_wait_for_the_end_of_what_prepares_it():
    prepare = part("prepare", container("python", "download.py"))
    document = jobset(prepare, {**training("node", pods=2), "dependsOn": [{"name": "prepare", "status": "Complete"}]})
    assert found(document, "core/start-order") == []
