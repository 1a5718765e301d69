"""P4, A6: a peer's kubeconfig is data from a stranger; the table is in `kubeconfigs.py`."""

from __future__ import annotations

import io
import json
import logging
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import InvalidKubeconfig
from registry_controller.api.meta import ObjectKey
from registry_controller.cache.credentials import CredentialStore
from registry_controller.core.status.cluster import ClusterFacts, build_cluster_status
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.kubeconfig import Credentials, read_secret, with_endpoint
from registry_controller.kube.object import decode_object
from registry_controller.report import logs
from tests.hostile.kubeconfigs import (
    CANARY,
    GOOD,
    KEY_PEM,
    ROWS,
    Accepted,
    Refused,
    Row,
    b64,
    markdown,
)
from tests.hostile.recorder import recorded

KEY = ObjectKey("registry", "peer")
ACCEPTED = [row for row in ROWS if isinstance(row.expected, Accepted)]
REFUSED = [row for row in ROWS if isinstance(row.expected, Refused)]
_KEY_LINE = KEY_PEM.decode().splitlines()[1]


def ids(row: Row) -> str:
    return row.name


def encoded(row: Row) -> dict[str, str]:
    return {key: b64(value) for key, value in row.data.items()}


def read(row: Row) -> Credentials:
    return with_endpoint(read_secret(secret_type=row.secret_type, data=encoded(row)), row.endpoint)


def refused(row: Row) -> InvalidKubeconfig:
    with pytest.raises(InvalidKubeconfig) as caught:
        read(row)
    return caught.value


def judged(row: Row) -> Credentials | str:
    """Hear the row's Secret as the daemon does, and find what its Cluster says or is read with.

    Its API server leaves out Secrets of other types, for which it does not ask (tests/e2e/test_members.py).
    """
    store = CredentialStore(on_change=lambda key: None)
    store.handler(KEY.namespace).on_synced(0)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "uid": "1", "resourceVersion": "1"},
        "type": row.secret_type,
        "data": encoded(row),
    }
    if row.secret_type == meta.REGISTRY_SECRET_TYPE:
        store.set_secret(decode_object(json.dumps(secret).encode()))
    found = store.find(KEY)
    assert found is not None
    if isinstance(found, str):
        return found
    try:
        return with_endpoint(found, row.endpoint)
    except InvalidKubeconfig as error:
        return str(error)


def assert_tells_nothing(said: str) -> None:
    for secret in (CANARY, b64(CANARY).rstrip("="), _KEY_LINE):
        assert secret not in said


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Have everything imported and looked up that the first one needs, and no other."""
    for row in ROWS:
        found = judged(row)
        if isinstance(found, Credentials):
            connect_peer(found)


def test_p4_the_table_is_whole() -> None:
    """P4: every name once, and each refused row holds a credential that could be told."""
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) > 50
    for row in REFUSED:
        raw = b"\n".join(row.data.values())
        texts = [raw.decode(encoding, errors="replace") for encoding in ("utf-8", "utf-16", "utf-16-le")]
        assert any(CANARY in found for found in texts), row.name


@pytest.mark.parametrize("row", REFUSED, ids=ids)
def test_p4_what_is_refused_is_refused_in_these_words(row: Row) -> None:
    """P4, A6: the Cluster's condition names the field and what to do, and tells nothing of the Secret."""
    assert isinstance(row.expected, Refused)
    words = judged(row)
    assert words == row.expected.begins.format(KEY) + row.expected.words
    assert isinstance(words, str)
    status = build_cluster_status(ClusterFacts(is_local=False, auth_problem=words))
    assert (status["state"], status["message"]) == ("InvalidAuthInfo", words)
    ready = next(condition for condition in status["conditions"] if condition["type"] == "Ready")
    assert (ready["status"], ready["message"]) == ("False", words)
    assert_tells_nothing(json.dumps(status))


@pytest.mark.parametrize("row", ACCEPTED, ids=ids)
async def test_p4_what_is_accepted_is_used_and_nothing_else(row: Row) -> None:
    """P4: server, CA, token, client certificate and TLS server name; the connection stands up to its first byte."""
    assert isinstance(row.expected, Accepted)
    found = judged(row)
    assert isinstance(found, Credentials)
    seen = Accepted(
        server=found.server,
        token=bool(found.token),
        certificate=bool(found.client_certificate_pem and found.client_key_pem),
        ca=bool(found.ca_pem),
        tls_server_name=found.tls_server_name,
    )
    assert seen == row.expected
    assert CANARY not in repr(found)
    reader = connect_peer(found)
    assert reader.server == row.expected.server
    await reader.close()


@pytest.mark.parametrize("row", ROWS, ids=ids)
async def test_p4_nothing_is_executed_read_or_dialled(row: Row) -> None:
    """P4: no process, no file, no socket, no name, no import, and no descriptor that stays."""
    before = _descriptors()
    reader: Reader | None = None
    with recorded() as obj:
        found = judged(row)
        if isinstance(found, Credentials):
            reader = connect_peer(found)
    assert obj == []
    assert _descriptors() == before
    assert (reader is None) == isinstance(row.expected, Refused)
    if reader is not None:
        await reader.close()


@pytest.mark.parametrize("row", REFUSED, ids=ids)
def test_a6_an_error_keeps_nothing_behind_it(
    row: Row, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: not the library's error either, which would quote what it could not read, nor a word in any log."""
    caplog.set_level(logging.DEBUG)
    ours = io.StringIO()
    monkeypatch.setattr(logs._outlet, "stream", ours)
    monkeypatch.setattr(logs._outlet, "level", logging.DEBUG)
    error = refused(row)
    logs.get_logger(__name__).exception("as if nobody had expected it", error=error)
    assert "InvalidKubeconfig" in ours.getvalue()
    assert error.__cause__ is None
    assert error.__context__ is None
    assert_tells_nothing(repr(error) + repr(error.__dict__))
    written = capfd.readouterr()
    assert_tells_nothing(ours.getvalue() + caplog.text + written.out + written.err)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("row", [row for row in ROWS if row.is_bomb], ids=ids)
def test_p4_a_bomb_takes_no_more_than_its_own_size(row: Row) -> None:
    """P4: a few times the input, and in the time of one test."""
    data = encoded(row)
    size = sum(map(len, data.values()))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidKubeconfig):
            read_secret(secret_type=row.secret_type, data=data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * size + 256 * 1024


def test_p4_white_space_in_base64_is_bounded_too() -> None:
    """P4: a list of 10 million pieces is never made."""
    data = {"kubeconfig": "a " * 10_000_000}
    tracemalloc.start()
    try:
        with pytest.raises(InvalidKubeconfig, match=r"data\.kubeconfig"):
            read_secret(secret_type=meta.REGISTRY_SECRET_TYPE, data=data)
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("secret_type", "data", "field"),
    [
        (meta.REGISTRY_SECRET_TYPE, [CANARY], "data"),
        (meta.REGISTRY_SECRET_TYPE, CANARY, "data"),
        (meta.REGISTRY_SECRET_TYPE, 5, "data"),
        (meta.REGISTRY_SECRET_TYPE, {"kubeconfig": 5, "value": b64(GOOD)}, "data.kubeconfig"),
        (meta.REGISTRY_SECRET_TYPE, {"kubeconfig": [CANARY]}, "data.kubeconfig"),
        (meta.REGISTRY_SECRET_TYPE, {"kubeconfig": {"a": CANARY}}, "data.kubeconfig"),
        (meta.REGISTRY_SECRET_TYPE, {"kubeconfig": f"%{CANARY}"}, "data.kubeconfig"),
        (meta.REGISTRY_SECRET_TYPE, {"kubeconfig": f"é{CANARY}"}, "data.kubeconfig"),
        ([CANARY], {"kubeconfig": b64(GOOD)}, "type"),
        ({"a": CANARY}, {"kubeconfig": b64(GOOD)}, "type"),
    ],
    ids=["list", "text", "number", "number in it", "list in it", "mapping in it", "no base64", "no ASCII",
         "type list", "type mapping"],
)  # fmt: skip
def test_p4_a_server_may_say_that_anything_is_a_secret(secret_type: Any, data: Any, field: str) -> None:
    """P4: a peer's API server is a stranger, too, and what it sends need not be what Kubernetes would store."""
    with pytest.raises(InvalidKubeconfig, match=rf"^{field}: ") as caught:
        read_secret(secret_type=secret_type, data=data)
    assert_tells_nothing(str(caught.value))
    assert caught.value.__context__ is None


def test_p4_a_secret_of_another_type_is_not_even_heard() -> None:
    """P4, P8: the daemon lists Secrets of its own type, and says so about one that it does not find there."""
    store = CredentialStore(on_change=lambda key: None)
    assert store.find(KEY) is None
    store.handler(KEY.namespace).on_synced(0)
    assert str(store.find(KEY)).startswith(f"Secret {KEY} of type {meta.REGISTRY_SECRET_TYPE} does not exist; ")


def _descriptors() -> set[str]:
    """List what is open, by what it is: numbers are used again."""
    return {f"{path.name} {path.readlink()}" for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}


def test_the_docs_have_the_table() -> None:
    """P4: as it is here, row by row."""
    docs = Path(__file__).parents[2] / "docs" / "security-tests.md"
    assert markdown() in docs.read_text(encoding="utf-8")
