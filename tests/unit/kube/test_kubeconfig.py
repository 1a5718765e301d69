"""Clause P4: a peer's kubeconfig is data from a stranger."""

from __future__ import annotations

import base64
import copy
import time
from typing import Any

import pytest
import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from registry_controller.api import meta
from registry_controller.api.cluster import Endpoint
from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.kube.kubeconfig import Credentials, read_secret, render, with_endpoint

SECRET = "do-not-show"
CA = trustme.CA()
OTHER_CA = trustme.CA()
LEAF = CA.issue_cert("client.test")
CA_PEM = CA.cert_pem.bytes().decode()
CERTIFICATE = LEAF.cert_chain_pems[0].bytes()
KEY = LEAF.private_key_pem.bytes()
STRANGE_KEY = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


def b64(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def document() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(
        render(cluster_name="a", server="https://a.test:6443", ca_pem=CA_PEM, user="reader", token=SECRET)
    )
    return found


def read(content: Any, *, key: str = "kubeconfig") -> Credentials:
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    return read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data={key: b64(text)})


def changed(path: str, value: Any) -> dict[str, Any]:
    """Change one field of a good kubeconfig; a path of keys and indexes."""
    found: Any = document()
    at = found
    *parts, last = path.split("/")
    for part in parts:
        at = at[int(part)] if part.isdigit() else at[part]
    if value is None:
        del at[last]
    else:
        at[last] = value
    assert isinstance(found, dict)
    return found


def test_what_we_publish_can_be_read() -> None:
    found = read(document())
    assert found == Credentials("https://a.test:6443", CA_PEM, SECRET, "", "", "")


def test_credentials_are_not_shown() -> None:
    assert SECRET not in repr(read(document()))


@pytest.mark.parametrize("key", ["kubeconfig", "value", "Config"])
def test_the_three_keys_are_read(key: str) -> None:
    assert read(document(), key=key).token == SECRET


def test_kubeconfig_comes_before_value() -> None:
    other = yaml.safe_dump(changed("users/0/user/token", "other"))
    data = {"value": b64(other), "kubeconfig": b64(yaml.safe_dump(document()))}
    assert read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data=data).token == SECRET


ALLOWED = {
    "preferences": ("preferences", {"colors": True}),
    "extensions": ("extensions", [{"name": "x", "extension": {"a": 1}}]),
    "cluster extensions": ("clusters/0/cluster/extensions", []),
    "verifying": ("clusters/0/cluster/insecure-skip-tls-verify", False),
    "namespace": ("contexts/0/context/namespace", "n"),
    "tls-server-name": ("clusters/0/cluster/tls-server-name", "b.test"),
    "no kind": ("kind", None),
    "an empty exec": ("users/0/user/client-key-data", ""),
    "a path": ("clusters/0/cluster/server", "https://a.test/k8s/clusters/c-1/"),
    "IPv6": ("clusters/0/cluster/server", "https://[2001:db8::1]:6443"),
    "no CA": ("clusters/0/cluster/certificate-authority-data", None),
}


@pytest.mark.parametrize(("path", "value"), ALLOWED.values(), ids=ALLOWED.keys())
def test_harmless_fields_are_allowed(path: str, value: Any) -> None:
    assert read(changed(path, value)).token == SECRET


REFUSED = {
    "exec": ("users/0/user/exec", {"command": SECRET}, "users[0].user.exec"),
    "auth-provider": ("users/0/user/auth-provider", {"name": SECRET}, "users[0].user.auth-provider"),
    "tokenFile": ("users/0/user/tokenFile", SECRET, "users[0].user.tokenFile"),
    "username": ("users/0/user/username", SECRET, "users[0].user.username"),
    "password": ("users/0/user/password", SECRET, "users[0].user.password"),
    "as": ("users/0/user/as", SECRET, "users[0].user.as"),
    "as-uid": ("users/0/user/as-uid", SECRET, "users[0].user.as-uid"),
    "as-groups": ("users/0/user/as-groups", [SECRET], "users[0].user.as-groups"),
    "client-certificate": ("users/0/user/client-certificate", "/" + SECRET, "users[0].user.client-certificate"),
    "client-key": ("users/0/user/client-key", "/" + SECRET, "users[0].user.client-key"),
    "a CA file": (
        "clusters/0/cluster/certificate-authority",
        "/" + SECRET,
        "clusters[0].cluster.certificate-authority",
    ),
    "proxy-url": ("clusters/0/cluster/proxy-url", SECRET, "clusters[0].cluster.proxy-url"),
    "not verifying": (
        "clusters/0/cluster/insecure-skip-tls-verify",
        True,
        "clusters[0].cluster.insecure-skip-tls-verify",
    ),
    "not verifying, spelled": (
        "clusters/0/cluster/insecure-skip-tls-verify",
        "true",
        "clusters[0].cluster.insecure-skip-tls-verify",
    ),
    "a key that is a secret": (f"users/0/user/{SECRET}.{SECRET}", 1, "users[0].user"),
    "no credentials": ("users/0/user/token", None, "users[0].user"),
    "an empty token": ("users/0/user/token", "", "users[0].user"),
    "a token with a line break": ("users/0/user/token", f"{SECRET}\r\nX-Evil: 1", "users[0].user.token"),
    "a token that is a number": ("users/0/user/token", 123, "users[0].user.token"),
    "http": ("clusters/0/cluster/server", f"http://{SECRET}.test", "clusters[0].cluster.server"),
    "no server": ("clusters/0/cluster/server", None, "clusters[0].cluster.server"),
    "userinfo": ("clusters/0/cluster/server", f"https://u:{SECRET}@a.test", "clusters[0].cluster.server"),
    "a query": ("clusters/0/cluster/server", f"https://a.test/?{SECRET}", "clusters[0].cluster.server"),
    "a fragment": ("clusters/0/cluster/server", f"https://a.test/#{SECRET}", "clusters[0].cluster.server"),
    "a path that climbs": ("clusters/0/cluster/server", f"https://a.test/x/../{SECRET}", "clusters[0].cluster.server"),
    "a line break": ("clusters/0/cluster/server", f"https://a.test\n{SECRET}", "clusters[0].cluster.server"),
    "a port that is none": ("clusters/0/cluster/server", "https://a.test:99999", "clusters[0].cluster.server"),
    "a CA that is none": ("clusters/0/cluster/certificate-authority-data", b64(SECRET), "certificate-authority-data"),
    "a CA that is no base64": ("clusters/0/cluster/certificate-authority-data", "%%%", "certificate-authority-data"),
    "a key alone": ("users/0/user/client-key-data", b64(KEY), "users[0].user"),
    "no current-context": ("current-context", None, "current-context"),
    "another current-context": ("current-context", SECRET, "current-context"),
    "another kind": ("kind", SECRET, "kind"),
    "an unknown field": ("proxies", [SECRET], "proxies"),
    "users that are no list": ("users", {"a": SECRET}, "users"),
}


@pytest.mark.parametrize(("path", "value", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_everything_else_is_refused_by_name_and_not_shown(path: str, value: Any, field: str) -> None:
    with pytest.raises(InvalidKubeconfig) as caught:
        read(changed(path, value))
    assert field in str(caught.value)
    assert SECRET not in str(caught.value)


def test_entries_that_are_not_in_use_are_checked_too() -> None:
    found = document()
    found["users"].append({"name": "other", "user": {"exec": {"command": "x"}}})
    with pytest.raises(InvalidKubeconfig, match=r"users\[1\].user.exec"):
        read(found)


def test_two_entries_of_one_name_are_refused() -> None:
    found = document()
    found["users"].append(copy.deepcopy(found["users"][0]))
    with pytest.raises(InvalidKubeconfig, match=r"users\[1\].name"):
        read(found)


def test_a_long_number_takes_no_time() -> None:
    began = time.monotonic()
    with pytest.raises(InvalidKubeconfig):
        read("a: " + "1:" * 100_000 + "1")
    assert time.monotonic() - began < 1.0


def test_a_certificate_needs_its_own_key() -> None:
    found = changed("users/0/user", {"client-certificate-data": b64(CERTIFICATE), "client-key-data": b64(KEY)})
    assert "PRIVATE KEY" in read(found).client_key_pem
    found["users"][0]["user"]["client-key-data"] = b64(STRANGE_KEY)
    with pytest.raises(InvalidKubeconfig, match="does not belong"):
        read(found)
    found["users"][0]["user"]["client-key-data"] = b64(SECRET)
    with pytest.raises(InvalidKubeconfig, match="client-key-data"):
        read(found)


def test_only_certificates_ride_along_in_a_ca() -> None:
    bundle = f"# {SECRET}\n{CA_PEM}\n{KEY.decode()}\n{CA_PEM}{OTHER_CA.cert_pem.bytes().decode()}"
    found = read(changed("clusters/0/cluster/certificate-authority-data", b64(bundle)))
    assert found.ca_pem == CA_PEM + OTHER_CA.cert_pem.bytes().decode()


BOMBS = {
    "aliases": "a: &a [x]\nb: *a\n",
    "a tag": "a: !!python/object:os.system x\n",
    "a duplicate key": "kind: Config\nkind: Config\n",
    "two documents": "kind: Config\n---\nkind: Config\n",
    "depth": "a: " + "[" * 100 + "]" * 100,
    "length": "a: [" + "x," * 10_000 + "]",
    "size": "a: " + "x" * 300_000,
    "a merge key": "<<: {a: b}\n",
    "a key that is no text": "1: a\n",
    "no YAML": f"a: [{SECRET}",
    "a text": SECRET,
    "nothing": "",
    "a number beyond bounds": "a: " + "9" * 5000,
    "a date that is none": "a: 2020-99-99\n",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_hostile_yaml_is_refused(text: str) -> None:
    data = {"kubeconfig": b64(text or " ")}
    with pytest.raises(InvalidKubeconfig) as caught:
        read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data=data)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("secret_type", "data"),
    [
        ("Opaque", {"kubeconfig": b64("x")}),
        (meta.REGISTRY_SECRET_TYPE, {}),
        (meta.REGISTRY_SECRET_TYPE, {"other": b64("x")}),
        (meta.REGISTRY_SECRET_TYPE, {"kubeconfig": "%%%"}),
        (meta.REGISTRY_SECRET_TYPE, {"kubeconfig": b64(b"\xff")}),
    ],
    ids=["type", "no data", "another key", "no base64", "no UTF-8"],
)
def test_a_secret_that_is_none_of_ours_is_refused(secret_type: str, data: dict[str, str]) -> None:
    with pytest.raises(InvalidKubeconfig):
        read_secret(secret_type=secret_type, data=data)


@pytest.mark.parametrize(
    ("address", "server"),
    [
        ("b.test", "https://b.test"),
        ("b.test:6443", "https://b.test:6443"),
        ("192.0.2.7", "https://192.0.2.7"),
        ("192.0.2.7:6443", "https://192.0.2.7:6443"),
        ("2001:db8::7", "https://[2001:db8::7]"),
        ("[2001:db8::7]:6443", "https://[2001:db8::7]:6443"),
        ("https://b.test:1/x", "https://b.test:1/x"),
    ],
)
def test_an_endpoint_replaces_the_address_and_drops_the_server_name(address: str, server: str) -> None:
    credentials = read(changed("clusters/0/cluster/tls-server-name", "c.test"))
    found = with_endpoint(credentials, Endpoint("", address, ""))
    assert (found.server, found.tls_server_name, found.token) == (server, "", SECRET)


@pytest.mark.parametrize("address", ["http://b.test", "u@b.test", "b.test?x", "b test", "ftp://b.test", "b.test:x"])
def test_an_endpoint_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InvalidKubeconfig, match="serverAddress"):
        with_endpoint(read(document()), Endpoint("", address, ""))


def test_an_endpoints_bundle_replaces_the_ca_alone() -> None:
    credentials = read(changed("clusters/0/cluster/tls-server-name", "c.test"))
    found = with_endpoint(credentials, Endpoint("", "", b64(OTHER_CA.cert_pem.bytes())))
    assert found.ca_pem == OTHER_CA.cert_pem.bytes().decode()
    assert (found.server, found.tls_server_name) == (credentials.server, "c.test")
    with pytest.raises(InvalidKubeconfig, match="caBundle"):
        with_endpoint(credentials, Endpoint("", "", b64(SECRET)))


def test_no_endpoint_changes_nothing() -> None:
    credentials = read(document())
    assert with_endpoint(credentials, None) is credentials
    assert with_endpoint(credentials, Endpoint("", "", "")) == credentials
