"""The webhook's certificates and its configuration: made, renewed, kept, shared; and what its server answers."""

from __future__ import annotations

import base64
import datetime
import io
import json
import ssl
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from registry_controller.api.errors import Conflict, RegistryError, Unreachable
from registry_controller.api.meta import GVR, Manifest, ObjectKey
from registry_controller.api.optiontext import Address
from registry_controller.kube.tls import load_certificate
from registry_controller.webhook.certificate import LIFETIME, Certificate, make_certificate, read_certificate
from registry_controller.webhook.gate import Gate
from registry_controller.webhook.keeping import CertificateDirectory
from registry_controller.webhook.registration import PATH, WEBHOOK, registered
from registry_controller.webhook.server import WebhookServer

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
NAME = "registry.cluster-registry.svc"
OURS = "5b9e8f4e-0000-4000-8000-00000000000a"
LOCAL = {"metadata": {"name": "a"}, "spec": {"clusterID": OURS}, "status": {"type": "Local"}}


def made(*, now: datetime.datetime = NOW, name: str = NAME, holder: str = "pod-1") -> Certificate:
    return make_certificate(name, holder=holder, now=now)


def configuration(*, bundle: str = "", policy: str = "Ignore", service: str = "registry") -> dict[str, Any]:
    client = {"service": {"name": service, "namespace": "cluster-registry", "path": PATH, "port": 443}}
    webhook = {"name": WEBHOOK, "failurePolicy": policy, "timeoutSeconds": 5}
    webhook["clientConfig"] = client | ({"caBundle": base64.b64encode(bundle.encode()).decode()} if bundle else {})
    other = {"name": "other.example.com", "failurePolicy": "Fail", "clientConfig": {"caBundle": "YQ=="}}
    return {"metadata": {"name": "hook", "resourceVersion": "1"}, "webhooks": [other, webhook]}


def cas(found: Manifest) -> set[str]:
    bundle = base64.b64decode(found["webhooks"][1]["clientConfig"].get("caBundle", ""))
    return (
        {ca.public_bytes(serialization.Encoding.PEM).decode() for ca in x509.load_pem_x509_certificates(bundle)}
        if bundle
        else set()
    )


# --- Certificates ------------------------------------------------------------------------------------------------


def context_of(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, certificate_pem=certificate.certificate_pem, key_pem=certificate.key_pem)
    return context


def handshake(server_context: ssl.SSLContext, *, trusted: str, name: str) -> None:
    """Shake hands in memory; ssl.SSLError when the client does not accept the certificate."""
    client_context = ssl.create_default_context(cadata=trusted)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(down, up, server_hostname=name)
    server = server_context.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.getpeercert()


def test_a_certificate_is_accepted_for_its_name_with_its_own_ca_alone() -> None:
    certificate, other = made(), made()
    handshake(context_of(certificate), trusted=certificate.ca_pem, name=NAME)
    handshake(context_of(certificate), trusted=other.ca_pem + certificate.ca_pem, name=NAME)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context_of(certificate), trusted=other.ca_pem, name=NAME)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(context_of(certificate), trusted=certificate.ca_pem, name="other.cluster-registry.svc")


def test_the_ca_can_sign_for_no_other_name() -> None:
    ca = x509.load_pem_x509_certificate(made().ca_pem.encode())
    constraints = ca.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert constraints.value.permitted_subtrees == [x509.DNSName(NAME)]


def test_a_certificate_is_renewed_a_week_before_its_end() -> None:
    certificate = made()
    assert certificate.not_after - NOW == LIFETIME
    assert not certificate.is_due(now=certificate.not_after - timedelta(days=7, seconds=1))
    assert certificate.is_due(now=certificate.not_after - timedelta(days=7))
    assert certificate.is_good_for(NAME, now=certificate.not_after - timedelta(days=7))
    assert not certificate.is_good_for(NAME, now=certificate.not_after)
    assert not certificate.is_good_for("other", now=NOW)


def test_a_certificate_shows_no_key() -> None:
    certificate = made()
    assert "PRIVATE" not in repr(certificate)
    assert read_certificate(certificate.spell().encode()) == certificate


# --- The directory -----------------------------------------------------------------------------------------------


def test_a_certificate_outlives_a_restart_in_a_file_for_nobody_else(tmp_path: Path) -> None:
    directory = CertificateDirectory(tmp_path / "a" / "b")
    assert directory.load() is None
    first, second = made(), made()
    for certificate in (first, second):
        directory.save(certificate)
        assert CertificateDirectory(tmp_path / "a" / "b").load() == certificate
    (file,) = (tmp_path / "a" / "b").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoil", ["readable", "cut", "mixed", "link"])
def test_a_file_that_cannot_be_believed_is_none(tmp_path: Path, spoil: str) -> None:
    directory, file = CertificateDirectory(tmp_path), tmp_path / "webhook.pem"
    directory.save(made())
    if spoil == "readable":
        file.chmod(0o644)
    elif spoil == "cut":
        file.write_bytes(file.read_bytes()[:900])
    elif spoil == "mixed":
        file.write_text(made().key_pem + file.read_text()[len(made().key_pem) :])
    else:
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    assert directory.load() is None


async def test_a_directory_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    api = Server(configuration())
    keeper = gate(api, Clock(), tmp_path / "file" / "inside")
    await keeper.reconcile()
    assert keeper.problem == ""
    assert (tmp_path / "file").read_text() == ""
    handshake(keeper.tls, trusted="".join(cas(api.stored or {})), name=NAME)


# --- The configuration -------------------------------------------------------------------------------------------


def test_what_somebody_else_left_behind_is_taken_over() -> None:
    """A killed Go pod leaves failurePolicy Fail and its own CA."""
    foreign = trustme.CA().cert_pem.bytes().decode()
    ours = made()
    before = configuration(bundle=foreign, policy="Fail")
    after = registered(before, own=[ours.ca_pem], now=NOW)
    assert after is not None
    assert cas(after) == {ours.ca_pem}
    assert after["webhooks"][1]["failurePolicy"] == "Ignore"
    assert after["webhooks"][1]["timeoutSeconds"] == 5
    assert after["webhooks"][0] == before["webhooks"][0]
    assert registered(after, own=[ours.ca_pem], now=NOW) is None


def test_replicas_keep_each_others_cas_until_they_expire() -> None:
    """A7: whoever comes adds to what is there, in any order, and then there is nothing to write."""
    first, second = made(), made(holder="pod-2", now=NOW + timedelta(days=1))
    both = configuration(bundle=second.ca_pem + first.ca_pem)
    for own in (first, second):
        assert registered(both, own=[own.ca_pem], now=NOW + timedelta(days=1)) is None
    added = registered(configuration(bundle=first.ca_pem), own=[second.ca_pem], now=NOW + timedelta(days=1))
    assert added is not None
    assert cas(added) == {first.ca_pem, second.ca_pem}
    later = registered(both, own=[second.ca_pem], now=first.not_after)
    assert later is not None
    assert cas(later) == {second.ca_pem}


def test_pods_that_come_and_go_a_lot_do_not_fill_the_bundle_nor_drive_each_other_out() -> None:
    gone = [made(now=NOW + timedelta(minutes=number)) for number in range(40)]
    mine = made(now=NOW + timedelta(minutes=1))
    full = registered(configuration(bundle="".join(c.ca_pem for c in gone)), own=[mine.ca_pem], now=NOW)
    assert full is not None
    assert len(cas(full)) == 32
    assert cas(full) >= {mine.ca_pem, gone[39].ca_pem}
    assert registered(full, own=[gone[39].ca_pem], now=NOW) is None


@pytest.mark.parametrize("bundle", ["nonsense", "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"])
def test_a_bundle_that_makes_no_sense_is_replaced(bundle: str) -> None:
    ours = made()
    after = registered(configuration(bundle=bundle), own=[ours.ca_pem], now=NOW)
    assert after is not None
    assert cas(after) == {ours.ca_pem}


# --- The gate ----------------------------------------------------------------------------------------------------


class Server:
    """One configuration at an API server; `failing` is what the next call raises."""

    def __init__(self, stored: Manifest | None) -> None:
        self.stored = stored
        self.failing: RegistryError | None = None
        self.writes = 0

    async def read(self, gvr: GVR, key: ObjectKey) -> Manifest | None:
        return self.stored

    async def replace(self, gvr: GVR, manifest: Manifest) -> None:
        if self.failing is not None:
            error, self.failing = self.failing, None
            raise error
        self.stored = manifest
        self.writes += 1


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime.datetime:
        return self.now


def gate(api: Server, clock: Clock, directory: Path, *, holder: str = "pod-1") -> Gate:
    return Gate(api=api, configuration="hook", directory=CertificateDirectory(directory), holder=holder, clock=clock)


def served(found: Gate, directory: Path) -> Certificate | None:
    """What is served is what was kept last."""
    return CertificateDirectory(directory).load()


async def test_a_certificate_is_renewed_before_its_end_and_known_before_it_is_served(tmp_path: Path) -> None:
    api, clock = Server(configuration()), Clock()
    keeper = gate(api, clock, tmp_path)
    await keeper.reconcile()
    first = served(keeper, tmp_path)
    assert first is not None
    for _ in range(3):
        await keeper.reconcile()
    assert api.writes == 1

    clock.now = first.not_after - timedelta(days=7)
    await keeper.reconcile()
    assert api.stored is not None
    known = cas(api.stored)
    assert len(known) == 2
    assert served(keeper, tmp_path) == first, "the API servers do not know the next one yet"
    clock.now += timedelta(minutes=1)
    await keeper.reconcile()
    second = served(keeper, tmp_path)
    assert second is not None
    assert second != first
    assert {first.ca_pem, second.ca_pem} == known
    assert first.is_good_for(NAME, now=clock.now), "there was no gap"
    assert api.writes == 2

    clock.now = first.not_after
    await keeper.reconcile()
    known = cas(api.stored)
    assert first.ca_pem not in known, "it has expired"
    assert second.ca_pem in known
    assert keeper.problem == ""


async def test_a_container_that_starts_again_goes_on_with_its_certificate(tmp_path: Path) -> None:
    api, clock = Server(configuration()), Clock()
    await gate(api, clock, tmp_path).reconcile()
    before = served(gate(api, clock, tmp_path), tmp_path)
    again = gate(api, clock, tmp_path)
    await again.reconcile()
    assert served(again, tmp_path) == before
    assert api.writes == 1


async def test_another_service_gets_another_certificate_at_once(tmp_path: Path) -> None:
    api, clock = Server(configuration()), Clock()
    keeper = gate(api, clock, tmp_path)
    await keeper.reconcile()
    api.stored = configuration(service="renamed")
    await keeper.reconcile()
    found = served(keeper, tmp_path)
    assert found is not None
    assert found.name == "renamed.cluster-registry.svc"
    assert cas(api.stored) == {found.ca_pem}


async def test_what_goes_wrong_is_words_and_heals(tmp_path: Path) -> None:
    api, clock = Server(None), Clock()
    keeper = gate(api, clock, tmp_path)
    await keeper.reconcile()
    assert "hook: does not exist, so every Cluster passes" in keeper.problem
    api.stored, api.failing = configuration(), Unreachable("gone")
    await keeper.reconcile()
    assert keeper.problem == "gone"
    assert served(keeper, tmp_path) is None, "nobody knows its CA"
    await keeper.reconcile()
    assert keeper.problem == ""
    assert cas(api.stored) == {getattr(served(keeper, tmp_path), "ca_pem", "")}


async def test_two_replicas_that_write_at_once_come_to_rest(tmp_path: Path) -> None:
    """A7: who was slower looks again."""
    api, clock = Server(configuration()), Clock()
    one, other = gate(api, clock, tmp_path / "1"), gate(api, clock, tmp_path / "2", holder="pod-2")
    await one.reconcile()
    api.failing = Conflict("changed")
    await other.reconcile()
    assert served(other, tmp_path / "2") is None
    await other.reconcile()
    await one.reconcile()
    assert api.stored is not None
    assert len(cas(api.stored)) == 2
    assert api.writes == 2


# --- The server --------------------------------------------------------------------------------------------------


async def ask(server: WebhookServer, certificate: Certificate, body: object, path: str = PATH) -> tuple[int, Any]:
    assert server.address is not None
    context = ssl.create_default_context(cadata=certificate.ca_pem)
    data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    async with aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{server.address.port}{path}"
        async with session.post(url, data=data, ssl=context, server_hostname=NAME) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if answer.status == 200 else text


def review(new: Mapping[str, Any] | None, operation: str = "CREATE", **more: object) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u1", "operation": operation, "object": new, **more},
    }  # fmt: skip


SECOND = {"kind": "Cluster", "metadata": {"name": "c"}, "spec": {"clusterID": OURS}}


async def test_a_review_is_answered_with_its_own_uid(tmp_path: Path) -> None:
    api, clock = Server(configuration()), Clock()
    keeper = gate(api, clock, tmp_path)
    server = WebhookServer(at=Address("127.0.0.1", 0), tls=keeper.tls, clusters=lambda: [LOCAL])
    async with server.serve():
        await keeper.reconcile()
        certificate = served(keeper, tmp_path)
        assert certificate is not None
        status, body = await ask(server, certificate, review(SECOND))
        assert (status, body["kind"], body["response"]["uid"]) == (200, "AdmissionReview", "u1")
        assert body["response"]["allowed"] is False
        assert body["response"]["status"]["code"] == 409
        assert "Cluster a stands already" in body["response"]["status"]["message"]
        for passing in (
            review({**SECOND, "spec": {"clusterID": "other"}}), review({**SECOND, "kind": "Other"}),
            review(None, "DELETE", oldObject=SECOND), review(SECOND, "UPDATE", oldObject=SECOND),
        ):  # fmt: skip
            _, body = await ask(server, certificate, passing)
            assert body["response"] == {"uid": "u1", "allowed": True}


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", {"request": {"uid": 1}}, b"[" * 100_000])
async def test_what_is_no_review_is_a_bad_request(tmp_path: Path, body: object) -> None:
    keeper = gate(Server(configuration()), Clock(), tmp_path)
    server = WebhookServer(at=Address("127.0.0.1", 0), tls=keeper.tls, clusters=list)
    async with server.serve():
        await keeper.reconcile()
        certificate = served(keeper, tmp_path)
        assert certificate is not None
        assert (await ask(server, certificate, body))[0] == 400
        assert (await ask(server, certificate, b"x" * (5 * 1024 * 1024)))[0] == 413
        assert (await ask(server, certificate, review(SECOND), "/other"))[0] == 404


async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    api, clock = Server(configuration()), Clock()
    keeper = gate(api, clock, tmp_path)
    server = WebhookServer(at=Address("127.0.0.1", 0), tls=keeper.tls, clusters=list)
    async with server.serve():
        await keeper.reconcile()
        first = served(keeper, tmp_path)
        assert first is not None
        assert (await ask(server, first, review(SECOND)))[0] == 200
        for later in (timedelta(days=8), timedelta(days=8, minutes=1)):
            clock.now = NOW + later
            await keeper.reconcile()
        second = served(keeper, tmp_path)
        assert second not in (first, None)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(server, first, review(SECOND))


async def test_nobody_gets_through_without_a_certificate(tmp_path: Path) -> None:
    keeper = gate(Server(None), Clock(), tmp_path)
    server = WebhookServer(at=Address("127.0.0.1", 0), tls=keeper.tls, clusters=list)
    async with server.serve():
        with pytest.raises(aiohttp.ClientConnectorError):
            await ask(server, made(), review(SECOND))
