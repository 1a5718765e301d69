"""A connection to a peer that misbehaves: it redirects, compresses, stalls, floods."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trustme
from aiohttp import web

from registry_controller import __version__
from registry_controller.api import errors, meta
from registry_controller.api.meta import ObjectKey
from registry_controller.api.selection import EVERYTHING
from registry_controller.clusters.dialer import PROBE_TIMEOUT_S
from registry_controller.kube.connect import Reader, connect_peer
from registry_controller.kube.kubeconfig import Credentials
from registry_controller.kube.translate import STATUS_BYTES
from registry_controller.kube.watch import read_cluster_id

CA = trustme.CA()
KEY = ObjectKey("default", "a")


class Peer:
    """A TLS server that answers as `answer` says."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.response: Any = lambda: web.json_response({"ok": True})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        response = self.response()
        found: web.StreamResponse = await response if asyncio.iscoroutine(response) else response
        return found


@pytest.fixture
def peer() -> Peer:
    return Peer()


@pytest.fixture
async def reader(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reader]:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", peer.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    CA.issue_cert("127.0.0.1", "name.test").configure_cert(context)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    credentials = Credentials(
        f"https://127.0.0.1:{port}/prefix", CA.cert_pem.bytes().decode(), "token", "", "", "name.test"
    )
    found = connect_peer(credentials)
    yield found
    await found.close()
    await runner.cleanup()


async def test_a_request_says_who_asks_and_nothing_else(peer: Peer, reader: Reader) -> None:
    response = web.json_response({"ok": True})
    response.set_cookie("a", "b")
    peer.response = lambda: response
    await reader.get(meta.SECRETS, KEY)
    peer.response = lambda: web.json_response({})
    await reader.get(meta.SECRETS, ObjectKey("default", "system:x y"))
    first, second = peer.requests
    assert first.raw_path == "/prefix/api/v1/namespaces/default/secrets/a"
    assert second.raw_path == "/prefix/api/v1/namespaces/default/secrets/system:x%20y"
    assert second.headers["Authorization"] == "Bearer token"
    assert second.headers["User-Agent"] == f"registry-controller/{__version__}"
    assert second.headers["Accept-Encoding"] == "identity"
    assert "Cookie" not in second.headers
    assert first.transport is second.transport


async def test_p4_a_redirect_is_not_followed(peer: Peer, reader: Reader) -> None:
    peer.response = lambda: web.Response(status=302, headers={"Location": "/elsewhere"})
    with pytest.raises(errors.ProtocolError):
        await reader.get(meta.SECRETS, KEY)
    assert len(peer.requests) == 1


async def test_what_is_compressed_is_refused(peer: Peer, reader: Reader) -> None:
    peer.response = lambda: web.Response(body=b"x", headers={"Content-Encoding": "gzip"})
    with pytest.raises(errors.ProtocolError):
        await reader.get(meta.SECRETS, KEY)


async def test_an_answer_is_bounded(peer: Peer, reader: Reader) -> None:
    peer.response = lambda: web.Response(body=b"x" * 2048)
    assert len(await reader.list_page(meta.SECRETS, EVERYTHING, query={}, limit_bytes=2048)) == 2048
    with pytest.raises(errors.TooMuch, match="larger than 1 KiB"):
        await reader.list_page(meta.SECRETS, EVERYTHING, query={}, limit_bytes=1024)


async def test_of_an_error_no_more_is_read_than_a_status_takes(peer: Peer, reader: Reader) -> None:
    """P5: before a server has proven who it is, its words cost next to nothing, and its code counts all the same."""
    causes = b"{}," * (STATUS_BYTES // 3)
    body = b'{"kind":"Status","code":403,"reason":"Forbidden","details":{"causes":[' + causes + b"{}]}}"
    peer.response = lambda: web.Response(status=403, body=body)
    with pytest.raises(errors.Forbidden, match=r"403$"):
        await reader.get(meta.SECRETS, KEY)
    peer.response = lambda: web.Response(status=403, body=body.replace(causes, b""))
    with pytest.raises(errors.Forbidden, match=r"403 Forbidden$"):
        await reader.get(meta.SECRETS, KEY)


@pytest.mark.parametrize(
    ("headers", "is_read"),
    [({f"X-{n}": "x" for n in range(120)}, True), ({f"X-{n}": "x" for n in range(128)}, False),
     ({"X": "x" * 65_000}, True), ({"X": "x" * 66_000}, False)],
    ids=["some", "more than 128", "almost 64 KiB", "more than 64 KiB"],
)  # fmt: skip
async def test_p5_headers_are_bounded(peer: Peer, reader: Reader, headers: dict[str, str], is_read: bool) -> None:
    """P5: 128 of them, which is the client's own limit and is set nowhere here, each of 64 KiB."""
    peer.response = lambda: web.json_response({}, headers=headers)
    if is_read:
        assert await reader.get(meta.SECRETS, KEY) == b"{}"
        return
    with pytest.raises(errors.ProtocolError, match="no valid HTTP"):
        await reader.get(meta.SECRETS, KEY)


async def test_p5_each_wait_has_its_end(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: as docs/security-limits.md says them: who it is, an object, the beginning of a watch, a page."""
    waits: list[float] = []

    def deadline(timeout_s: float) -> object:
        waits.append(timeout_s)
        raise errors.Unreachable("no answer in time")

    monkeypatch.setattr(reader._transport, "_deadline", deadline)
    with pytest.raises(errors.Unreachable):
        await read_cluster_id(reader, timeout_s=PROBE_TIMEOUT_S)
    with pytest.raises(errors.Unreachable):
        await reader.get(meta.SECRETS, KEY)
    with pytest.raises(errors.Unreachable):
        await reader.get_path("/version")
    with pytest.raises(errors.Unreachable):
        async with reader.stream(meta.SECRETS, EVERYTHING, query={}, silence_s=1):
            pass
    with pytest.raises(errors.Unreachable):
        await reader.list_page(meta.SECRETS, EVERYTHING, query={})
    assert waits == [5.0, 10.0, 10.0, 30.0, 60.0]
    assert reader._transport._no_total.sock_connect == 10.0


async def test_a_slow_answer_is_no_answer(peer: Peer, reader: Reader) -> None:
    peer.response = lambda: asyncio.sleep(5)
    with pytest.raises(errors.Unreachable, match="in time"):
        await reader.get(meta.SECRETS, KEY, timeout_s=0.1)
    assert reader.answers == 0


async def test_closing_ends_what_is_under_way(peer: Peer, reader: Reader) -> None:
    peer.response = lambda: asyncio.sleep(5)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(_outcome(reader), name="get")
        while not peer.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await reader.close()
    assert task.result() is errors.Unreachable


async def _outcome(reader: Reader) -> type[Exception] | None:
    try:
        await reader.get(meta.SECRETS, KEY)
    except errors.RegistryError as error:
        return type(error)
    return None


@pytest.mark.parametrize(("status", "answers"), [(200, 1), (403, 1), (401, 0), (502, 0)])
async def test_p5_only_an_answer_of_the_server_itself_proves_life(
    peer: Peer, reader: Reader, status: int, answers: int
) -> None:
    peer.response = lambda: web.Response(status=status, text="{}")
    await _outcome(reader)
    assert reader.answers == answers


async def test_a_kind_that_is_not_there_is_not_served(peer: Peer, reader: Reader) -> None:
    peer.response = lambda: web.Response(status=404, text="404 page not found")
    with pytest.raises(errors.NotServed):
        await reader.list_page(meta.SECRETS, EVERYTHING, query={})
    with pytest.raises(errors.NotServed):
        async with reader.stream(meta.SECRETS, EVERYTHING, query={}, silence_s=1.0):
            pass


async def test_a_silent_stream_ends(peer: Peer, reader: Reader) -> None:
    async def silence() -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(peer.requests[-1])
        await response.write(b"a")
        await asyncio.sleep(5)
        return response

    peer.response = silence
    obj: list[bytes] = []

    async def hear() -> None:
        async with reader.stream(meta.SECRETS, EVERYTHING, query={"watch": "1"}, silence_s=0.2) as chunks:
            async for chunk in chunks:
                obj.append(chunk)

    with pytest.raises(errors.Unreachable):
        await hear()
    assert obj == [b"a"]


@pytest.mark.parametrize(
    "key",
    [ObjectKey("default", ".."), ObjectKey("default", "a/b"), ObjectKey("..", "a"), ObjectKey("", "a")],
    ids=str,
)
def test_no_name_leads_elsewhere(key: ObjectKey) -> None:
    with pytest.raises(errors.ProtocolError):
        meta.SECRETS.object_path(key)
