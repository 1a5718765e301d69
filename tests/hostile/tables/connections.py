"""What happens before there is an answer: TLS, and HTTP itself."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final

import trustme

from tests.hostile.cases import GOOD, Case
from tests.hostile.server.deeds import (
    before_tls,
    closes_after,
    compresses,
    hangs_up,
    in_turn,
    refuses,
    sends,
    silence,
)
from tests.hostile.server.stranger import Deed, Stranger, make_context

_PROOF: Final = "/api/v1/namespaces/kube-system"
_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_LATE: Final = "no answer in time"
_BROKEN: Final = "the answer is no valid HTTP"
_LOST: Final = "connection lost"
COMPRESSED: Final = "the answer is compressed, which was not asked for"
_FAILED: Final = "Failed"


def _proof(does: str, happens: str, deed: Deed, *said: str) -> Case:
    """A server that does this when it is asked who it is."""
    return Case(does, happens, lambda server: server.order(deed, _PROOF), said, state=_FAILED)


def _at_all(does: str, happens: str, deed: Deed, *said: str) -> Case:
    return Case(does, happens, lambda server: server.order(deed), said, state=_FAILED)


def _tls(does: str, happens: str, arm: Callable[[Stranger], None], *said: str) -> Case:
    return Case(does, happens, arm, said, state=_FAILED)


def _greets(data: bytes) -> Callable[[Stranger], None]:
    def arm(server: Stranger) -> None:
        server.greeting = before_tls(data)

    return arm


def _shows(*names: str, ca: trustme.CA | None = None, is_expired: bool = False) -> Callable[[Stranger], None]:
    def arm(server: Stranger) -> None:
        since = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        more = {"not_before": since, "not_after": since + datetime.timedelta(days=1)} if is_expired else {}
        server.context = make_context(ca or server.ca, *names, **more)

    return arm


def _changes_its_certificate(server: Stranger) -> None:
    """Honest at first; from the first list on every new connection is shown another CA's certificate."""
    other = make_context(trustme.CA())

    async def deed(ask: object, wire: object, here: Stranger) -> None:
        here.context = other
        await hangs_up(ask, wire, here)  # type: ignore[arg-type]

    server.order(deed, when=lambda ask: ask.path != _PROOF or server.context is other)


_DIAL: Final = "is dialled again, every few seconds at most"
_CONNECT: Final = "Cannot connect to host"

CONNECTIONS: Final = (
    _tls("stalls in the TLS handshake", _DIAL, _greets(b""), _LATE),
    _tls("answers TLS with plain HTTP", _DIAL, _greets(b"HTTP/1.1 400 Bad Request\r\n\r\n"), _CONNECT),
    _tls("answers TLS with garbage", _DIAL, _greets(bytes(range(256)) * 16), _CONNECT),
    _tls("shows a certificate of another CA", _DIAL, _shows(ca=trustme.CA()), "certificate verify failed"),
    _tls("shows a certificate of another host", _DIAL, _shows("other.test"), "certificate is not valid for"),
    _tls("shows an expired certificate", _DIAL, _shows(is_expired=True), "certificate has expired"),
    _tls(
        "changes its certificate while it is read",
        "what was heard stays; is dialled again",
        _changes_its_certificate,
        "certificate verify failed",
    ),
    _at_all("accepts, and says nothing", _DIAL, silence, _LATE),
    _at_all("closes every connection without an answer", _DIAL, hangs_up, _LOST),
    _at_all(
        "speaks another protocol", _DIAL, sends(b"SSH-2.0-OpenSSH_9.9\r\n", again=b"x" * 1000, every_s=0.01), _BROKEN
    ),
    Case(
        "closes the connection after each answer",
        "is read over new connections",
        lambda server: server.order(closes_after, when=lambda ask: not ask.is_watch),
        copied=(GOOD,),
    ),
    _proof("sends its headers byte by byte, one a second", _DIAL, sends(_OK, again=b"x", every_s=1), _LATE),
    _proof(
        "sends its body byte by byte, one a second",
        _DIAL,
        sends(_OK + b"Content-Length: 5000\r\n\r\n{", again=b" ", every_s=1),
        _LATE,
    ),
    _proof(
        "sends headers without end",
        "the connection ends at 128 of them",
        sends(_OK, again=b"X-More: " + b"x" * 60 + b"\r\n"),
        _BROKEN,
    ),
    _proof(
        "sends a header without end", "the connection ends at 64 KiB", sends(_OK + b"X: ", again=b"x" * 4096), _BROKEN
    ),
    _proof(
        "sends `100 Continue` without end",
        "the wait ends",
        sends(again=b"HTTP/1.1 100 Continue\r\n\r\n", every_s=0.001),
        _LATE,
    ),
    _proof(
        "switches protocols",
        _DIAL,
        sends(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"),
        "HTTP 101, which no API server answers",
    ),
    _proof("sends less than it announced", _DIAL, sends(_OK + b"Content-Length: 500\r\n\r\n{}"), _LOST),
    _proof(
        "announces a body of 1 TiB",
        "nothing of it is read",
        sends(_OK + b"Content-Length: 1099511627776\r\n\r\n", again=b" " * 4096),
        "the answer is larger than",
    ),
    _proof("announces two lengths", _DIAL, sends(_OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), _BROKEN),
    _proof("announces a negative length", _DIAL, sends(_OK + b"Content-Length: -1\r\n\r\n{}"), _BROKEN),
    _proof(
        "announces chunks that are none",
        _DIAL,
        sends(_OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n"),
        _BROKEN,
    ),
    _proof(
        "announces a chunk of 2^64 bytes",
        "no more is taken than bodies may have",
        sends(_OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", again=b" " * 65536),
        "the answer",
    ),
    _proof(
        "says who it is in 256 KiB that are 256 MiB, with gzip",
        "nothing is decompressed",
        compresses("gzip"),
        COMPRESSED,
    ),
    _proof(
        "says who it is in 256 KiB that are 256 MiB, with deflate",
        "nothing is decompressed",
        compresses("deflate"),
        COMPRESSED,
    ),
    _proof(
        "sets cookies",
        "none is kept, none is sent",
        in_turn(refuses(503, "ServiceUnavailable", headers={"Set-Cookie": "a=b; Path=/"})),
        "503",
    ),
)
