"""The token that other clusters read this one with: lasting or expiring, renewed and revoked. P3."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import BadInput
from registry_controller.local import reader_token
from registry_controller.local.client import SERVICE_ACCOUNTS, ClusterClient
from registry_controller.local.manifests import BINDING_SECRET_TYPE, SERVICE_ACCOUNT, TOKEN_SECRET_TYPE
from registry_controller.local.reader_token import (
    ExpiringToken,
    LastingToken,
    NotReady,
    TokenSource,
    decode_text,
    make_token_source,
    revoke_tokens,
    token_type,
    tokens_left,
)
from registry_controller.report.logs import get_logger
from tests.unit.local.fake_server import NAMESPACE, READER, FakeServer, b64


def settings(expiration_s: int = 0) -> Any:
    return SimpleNamespace(
        namespace=NAMESPACE, reader_service_account_name=READER, reader_token_expiration_seconds=expiration_s
    )


def source(server: FakeServer, expiration_s: int = 0) -> TokenSource:
    return make_token_source(api=ClusterClient(server), settings=settings(expiration_s), log=get_logger("test"))


def put_token(server: FakeServer, name: str, *, account: str = READER, **fields: Any) -> None:
    info = {"name": name, "namespace": NAMESPACE, "annotations": {SERVICE_ACCOUNT: account}, **fields}
    server.put(meta.SECRETS, {"metadata": info, "type": TOKEN_SECRET_TYPE})


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def test_the_option_decides_between_a_lasting_and_an_expiring_token(server: FakeServer) -> None:
    assert isinstance(source(server), LastingToken)
    assert isinstance(source(server, 600), ExpiringToken)
    assert (token_type(0), token_type(600)) == (TOKEN_SECRET_TYPE, BINDING_SECRET_TYPE)


async def test_p3_a_lasting_token_is_that_of_the_oldest_token_secret_of_the_reader(server: FakeServer) -> None:
    put_token(server, "other", account="another")
    put_token(server, "going", deletionTimestamp="2026-01-01T00:00:00Z")
    put_token(server, "old")
    put_token(server, "new")
    lasting = source(server)
    found = await lasting.find(current="")
    old = server.find(meta.SECRETS, "old", NAMESPACE)
    assert old is not None
    assert b64(found.token) == old["data"]["token"]
    assert lasting.renew_in_s() == math.inf
    assert server.writes == []


async def test_p3_without_a_token_secret_one_is_created(server: FakeServer) -> None:
    found = await source(server).find(current="")
    assert found.token
    assert server.writes == ["create secrets"]


async def test_p3_a_token_that_kubernetes_does_not_fill_in_is_a_passing_problem(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_token, "_WAIT_S", 0.02)
    monkeypatch.setattr(reader_token, "_POLL_S", 0.01)
    server.fills_tokens = False
    with pytest.raises(NotReady, match=f"ServiceAccount {NAMESPACE}/{READER}: Kubernetes has not filled its token"):
        await source(server).find(current="")


@pytest.mark.parametrize("expiration_s", [0, 600])
async def test_p3_a_missing_service_account_is_reported_and_no_secret_is_created(
    server: FakeServer, expiration_s: int
) -> None:
    server.drop(SERVICE_ACCOUNTS, READER, NAMESPACE)
    with pytest.raises(BadInput, match=f"ServiceAccount {NAMESPACE}/{READER} does not exist"):
        await source(server, expiration_s).find(current="")
    assert server.writes == []


async def test_p3_the_right_to_read_service_accounts_is_not_needed_for_a_lasting_token(server: FakeServer) -> None:
    server.forbidden.add(("get", "serviceaccounts"))
    assert (await source(server).find(current="")).token


async def test_p3_an_expiring_token_is_kept_while_it_is_valid_and_renewed_at_four_fifths(server: FakeServer) -> None:
    expiring = source(server, 600)
    first = await expiring.find(current="")
    assert expiring.renew_in_s() == pytest.approx(480, abs=2)
    assert (await expiring.find(current=first.token)).token == first.token
    assert server.writes == ["create secrets", "issue token"]
    server.grants_s = 0
    short = await source(server, 600).find(current="")
    server.grants_s = 600
    assert (await source(server, 600).find(current=short.token)).token != short.token


@pytest.mark.parametrize("current", ["", "not.a.token", "no token at all", "e30.e30.e30"])
async def test_p3_a_text_that_is_no_token_of_ours_is_replaced(server: FakeServer, current: str) -> None:
    found = await source(server, 600).find(current=current)
    assert found.token != current


async def test_p3_a_token_ends_with_its_secret(server: FakeServer) -> None:
    first = await source(server, 600).find(current="")
    (path,) = [path for path in server.objects if "token-binding" in path]
    del server.objects[path]
    assert (await source(server, 600).find(current=first.token)).token != first.token


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"type": "Opaque"}, BadInput, "its type must be cluster-registry.k8s.cisco.com/token-binding; delete it"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, NotReady, "is being deleted"),
    ],
    ids=["another type", "being deleted"],
)
async def test_p3_a_binding_secret_that_cannot_be_used_is_reported(
    server: FakeServer, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    name = f"{READER}-token-binding"
    metadata = {"name": name, "namespace": NAMESPACE, **fields.get("metadata", {})}
    server.put(meta.SECRETS, {"type": BINDING_SECRET_TYPE, **fields, "metadata": metadata})
    with pytest.raises(error, match=f"Secret {NAMESPACE}/{name}: {message}"):
        await source(server, 600).find(current="")


async def test_o6_all_tokens_of_the_reader_are_revoked_of_both_kinds_and_no_others(server: FakeServer) -> None:
    put_token(server, "one")
    put_token(server, "other", account="another")
    await source(server, 600).find(current="")
    api = ClusterClient(server)
    assert sorted(meta.metadata_of(found)["name"] for found in await tokens_left(api, settings())) == [
        "one", f"{READER}-token-binding"
    ]  # fmt: skip
    await revoke_tokens(api, settings())
    assert await tokens_left(api, settings()) == []
    assert server.find(meta.SECRETS, "other", NAMESPACE) is not None


@pytest.mark.parametrize(
    ("data", "text"),
    [({"key": b64("x")}, "x"), ({}, ""), ({"key": None}, ""), ({"key": "?"}, ""), ({"key": "/w=="}, "")],
    ids=["text", "missing", "null", "not base64", "not UTF-8"],
)
def test_a_value_of_a_secret_is_text_or_empty(data: dict[str, Any], text: str) -> None:
    assert decode_text(data, "key") == text


async def test_no_token_is_in_the_text_of_a_reader_token(server: FakeServer) -> None:
    found = await source(server).find(current="")
    assert found.token not in repr(found)
