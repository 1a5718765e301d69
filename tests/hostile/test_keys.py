"""P4: certificates and keys from strangers, and the way on which OpenSSL gets them."""

from __future__ import annotations

import base64
import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.kube.connect import connect_peer
from registry_controller.kube.kubeconfig import Credentials, read_secret
from registry_controller.kube.pem import read_ca
from tests.hostile.kubeconfigs import CA_PEM, CANARY, KEY_PEM, LEAF_PEM, PAIR, SERVER, b64, document, text


def read(user: dict[str, str]) -> Credentials:
    data = {"kubeconfig": b64(text(document(user=user)))}
    return read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data=data)


async def test_p4_a_key_is_given_to_openssl_in_memory_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: OpenSSL takes a path; it is one of a descriptor without a file, closed at once, that no child inherits."""
    paths: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def watch(self: ssl.SSLContext, path: str) -> None:
        paths.append(str(Path(path).readlink()))
        assert not os.get_inheritable(int(Path(path).name))
        load(self, path)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watch)
    reader = connect_peer(read(PAIR))
    assert paths == ["/memfd:certificate (deleted)"] * 2  # tried when it is read, used when it is dialled
    await reader.close()


async def test_p4_without_such_memory_a_key_is_in_a_file_of_ours_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """P4: only where the system has no memfd; nobody else may read it, and it is gone before a byte is sent."""
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def watch(self: ssl.SSLContext, path: str) -> None:
        folder = Path(path).parent
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        modes.append(stat.S_IMODE(Path(path).stat().st_mode))
        load(self, path)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watch)
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    reader = connect_peer(read(PAIR))
    assert modes == [0o600] * 2
    await reader.close()
    assert not any(os.scandir(tmp_path))


_MATERIAL = {
    "certificate": (LEAF_PEM, lambda pem: {**PAIR, "client-certificate-data": b64(pem)}),
    "key": (KEY_PEM, lambda pem: {**PAIR, "client-key-data": b64(pem)}),
}


def _flipped(pem: bytes) -> Iterator[bytes]:
    """Change each byte inside the PEM in turn."""
    begin, *body, end = pem.decode().strip().splitlines()
    der = base64.b64decode("".join(body))
    for index in range(len(der)):
        other = der[:index] + bytes([der[index] ^ 0x85]) + der[index + 1 :]  # also the bit that makes numbers negative
        yield f"{begin}\n{b64(other)}\n{end}\n".encode()


@pytest.mark.parametrize("kind", _MATERIAL)
def test_p4_no_byte_of_a_certificate_or_key_ends_more_than_its_own_cluster(kind: str) -> None:
    """P4: it is refused by its field, or read; nothing else is raised, which would end the daemon."""
    pem, user = _MATERIAL[kind]
    refusals = []
    for flipped in _flipped(pem):
        try:
            read(user(flipped))
        except InvalidKubeconfig as error:
            refusals.append(error)
    assert refusals
    assert all(str(error).startswith("users[0].user.client-") for error in refusals)
    assert all(error.__context__ is None for error in refusals)


def test_p4_no_byte_of_a_ca_ends_more_than_its_own_cluster() -> None:
    """P4: the same for what servers are verified with."""
    refusals = []
    for flipped in _flipped(CA_PEM):
        try:
            ssl.create_default_context(cadata=read_ca(flipped, field="ca"))
        except InvalidKubeconfig as error:
            refusals.append(str(error))
    assert refusals
    assert all(words.startswith("ca: ") for words in refusals)


def test_what_openssl_refuses_while_dialling_names_the_fields() -> None:
    """P4, A6: what got past reading (another OpenSSL policy) is said, not raised as something else."""
    credentials = Credentials(SERVER, f"{CANARY} is no CA", "", "", "", "")
    with pytest.raises(InvalidKubeconfig, match=r"^certificate-authority-data, client-certificate-data: ") as caught:
        connect_peer(credentials)
    assert CANARY not in str(caught.value) + repr(caught.value.__cause__)
