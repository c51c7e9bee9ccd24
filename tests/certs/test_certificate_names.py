"""Names of a Service, and which certificates cover them."""

from __future__ import annotations

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from muster.certs import (
    authorities,
    chains,
    errors,
    expiries,
    leaves,
    subject_names,
)

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
AUTHORITY = authorities.create(expiries.utc_now())


def test_the_name_that_the_api_server_dials_comes_first():
    assert subject_names.service_names("muster", "muster-system") == (
        "muster.muster-system.svc",
        "muster.muster-system.svc.cluster.local",
        "muster.muster-system",
        "muster",
    )


def test_local_adds_the_names_of_this_machine():
    assert subject_names.service_names("m", "n", local=True)[-3:] == ("localhost", "127.0.0.1", "::1")


def test_the_cluster_domain_can_be_another():
    assert "m.n.svc.example.org" in subject_names.service_names("m", "n", domain="example.org")


@given(service=LABELS, namespace=LABELS, local=st.booleans())
def test_a_leaf_covers_every_name_of_any_service(service, namespace, local):
    wanted = subject_names.service_names(service, namespace, local=local)
    leaf = leaves.issue(AUTHORITY, wanted, expiries.utc_now())
    assert all(subject_names.covered(name, leaf.sans) for name in wanted)
    assert set(leaf.sans) == set(wanted)
    assert chains.window(leaf.certificate).covers(expiries.utc_now())


@pytest.mark.parametrize("label", ["", "Muster", "-m", "m-", "a.b", "a_b", "m\n", "x" * 64, "ä"])
@pytest.mark.parametrize("field", ["service", "namespace"])
def test_what_is_no_dns_label_is_refused_by_field(field, label):
    arguments = {"service": "muster", "namespace": "muster-system"} | {field: label}
    with pytest.raises(errors.NamesError, match=f"^{field}: "):
        subject_names.service_names(**arguments)


@pytest.mark.parametrize("domain", ["", "cluster.local.", "Cluster.Local", ".".join(["x" * 60] * 5)])
def test_a_domain_that_is_no_dns_name_is_refused(domain):
    with pytest.raises(errors.NamesError, match="neither a DNS name nor an IP address"):
        subject_names.service_names("muster", "muster-system", domain=domain)


@pytest.mark.parametrize("sans", [(), ("*.svc",), ("muster.svc.",), ("http://muster",)])
def test_a_leaf_is_not_issued_for_names_that_nobody_can_dial(sans):
    with pytest.raises(errors.NamesError):
        leaves.issue(AUTHORITY, sans, expiries.utc_now())


@pytest.mark.parametrize(
    ("name", "san", "covered"),
    [
        ("a.b.svc", "a.b.svc", True),
        ("a.b.svc", "A.B.SVC", True),
        ("a.b.svc", "*.b.svc", True),
        ("a.b.svc", "*.svc", False),
        ("b.svc", "*.b.svc", False),
        ("a", "*.", False),
        ("a.b.svc", "*", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("127.0.0.1", "*.0.0.1", False),
    ],
)
def test_names_match_as_clients_match_them(name, san, covered):
    assert subject_names.covered(name, [san]) is covered


def test_a_service_with_the_longest_names_gets_a_certificate():
    wanted = subject_names.service_names("s" * 63, "n" * 63)
    leaf = leaves.issue(AUTHORITY, wanted, expiries.utc_now())
    common = leaf.certificate.subject.get_attributes_for_oid(x509.oid.NameOID.COMMON_NAME)[0].value
    assert len(common) == 64
    assert leaf.sans == wanted
