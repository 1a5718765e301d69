"""What happens before there is an answer: TLS, and HTTP itself."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final

import trustme

from tests.hostile.cases import HONEST, Case
from tests.hostile.server.deeds import (
    before_tls,
    closes_after,
    compresses,
    hangs_up,
    refuses,
    sends,
    silence,
)
from tests.hostile.server.stranger import Deed, Stranger, make_context
from tests.hostile.shown import (
    ASKED,
    DIALLED,
    MAPS,
    MIB,
    NOT_DECOMPRESSED,
    PROOF,
    STAYS,
    Claim,
    Sight,
    dials,
    ends,
    holds,
    paced,
    requests,
)

_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_LATE: Final = "no answer in time"
_BROKEN: Final = "the answer is no valid HTTP"
_LOST: Final = "connection lost"
_LARGE: Final = "the answer is larger than 8 MiB"
COMPRESSED: Final = "the answer is compressed, which was not requested"
_FAILED: Final = "Failed"

_TWICE: Final = paced(DIALLED.words, dials, each=2)  # the client itself tries once more what a closed connection ended
_HEADERS: Final = ends("the connection ends before 6 MiB of them are sent")
_HEADER: Final = ends("the connection ends at 64 KiB of it", at_bytes=64 * 1024)
_NEXT_TO_NOTHING: Final = ends("the connection ends before 6 MiB of it are sent")
_BODY: Final = ends("the connection ends at 8 MiB of it", at_bytes=8 * MIB)


def _proof(does: str, deed: Deed, said: str, *claims: Claim) -> Case:
    """A server that does this when it is asked who it is."""
    return Case(does, (*claims, ASKED), lambda server: server.order(deed, PROOF), said=(said,), state=_FAILED)


def _at_all(does: str, deed: Deed, said: str, claim: Claim = DIALLED) -> Case:
    return Case(does, (claim,), lambda server: server.order(deed), said=(said,), state=_FAILED)


def _tls(does: str, arm: Callable[[Stranger], None], said: str) -> Case:
    return Case(does, (DIALLED,), arm, said=(said,), state=_FAILED)


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


def _one_each(sight: Sight) -> None:
    answers = sight.asked(lambda ask: not ask.is_watch)
    assert len(sight.server.dialled) >= len(answers) > 3, "a connection was used twice"


def _no_cookie(sight: Sight) -> None:
    assert all("cookie" not in ask.headers for ask in sight.server.asked)


CONNECTIONS: Final = (
    _tls("stalls in the TLS handshake", _greets(b""), _LATE),
    _tls("answers TLS with plain HTTP", _greets(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not answer with TLS"),
    _tls("answers TLS with garbage", _greets(bytes(range(256)) * 16), "does not answer with TLS"),
    _tls(
        "shows a certificate of another CA", _shows(ca=trustme.CA()), "not from a certificate authority that is trusted"
    ),
    _tls("shows a certificate of another host", _shows("other.test"), "certificate is not valid for"),
    _tls("shows an expired certificate", _shows(is_expired=True), "certificate has expired"),
    Case(
        "changes its certificate while it is read",
        # Each of what reads it tries by itself, until two questions who it is went unanswered.
        (STAYS, paced(DIALLED.words, dials, each=8)),
        turns=_shows(ca=trustme.CA()),
        said=("not from a certificate authority that is trusted",),
        state=_FAILED,
        copied=HONEST,
    ),
    _at_all("accepts, and sends nothing", silence, _LATE),
    _at_all("closes every connection without an answer", hangs_up, _LOST, _TWICE),
    _at_all("uses another protocol", sends(b"SSH-2.0-OpenSSH_9.9\r\n", again=b"x" * 1000, every_s=0.01), _BROKEN),
    Case(
        "closes the connection after each answer",
        (holds("is read over new connections, one for each answer", _one_each),),
        lambda server: server.order(closes_after, when=lambda ask: not ask.is_watch),
        copied=HONEST,
    ),
    _proof("sends its headers byte by byte, one a second", sends(_OK, again=b"x", every_s=1), _LATE),
    _proof(
        "sends its body byte by byte, one a second",
        sends(_OK + b"Content-Length: 5000\r\n\r\n{", again=b" ", every_s=1),
        _LATE,
    ),
    _proof("sends headers without end", sends(_OK, again=b"X-More: " + b"x" * 60 + b"\r\n"), _BROKEN, _HEADERS),
    _proof("sends a header without end", sends(_OK + b"X: ", again=b"x" * 4096), _BROKEN, _HEADER),
    _proof("sends `100 Continue` without end", sends(again=b"HTTP/1.1 100 Continue\r\n\r\n", every_s=0.001), _LATE),
    _proof(
        "switches protocols",
        sends(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"),
        "HTTP 101, which no API server answers",
    ),
    _proof("sends less than it announced", sends(_OK + b"Content-Length: 500\r\n\r\n{}"), _LOST),
    _proof(
        "announces a body of 1 TiB",
        sends(_OK + b"Content-Length: 1099511627776\r\n\r\n", again=b" " * 4096),
        _LARGE,
        _NEXT_TO_NOTHING,
    ),
    _proof("announces two lengths", sends(_OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), _BROKEN),
    _proof("announces a negative length", sends(_OK + b"Content-Length: -1\r\n\r\n{}"), _BROKEN),
    _proof(
        "announces invalid chunks",
        sends(_OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n"),
        _BROKEN,
    ),
    _proof(
        "announces a chunk of 2^64 bytes",
        sends(_OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", again=b" " * 65536),
        _LARGE,
        _BODY,
    ),
    *(
        _proof(
            f"answers the identity check in 256 KiB that are 256 MiB, with {encoding}",
            compresses(encoding),
            COMPRESSED,
            NOT_DECOMPRESSED,
        )
        for encoding in ("gzip", "deflate")
    ),
    Case(
        "sets cookies",  # where it is read: who it is is asked once on each connection, before anything could be kept
        (holds("none is sent back", _no_cookie), paced("is asked again, every few seconds at most", requests(MAPS))),
        lambda server: server.order(refuses(503, "ServiceUnavailable", headers={"Set-Cookie": "a=b; Path=/"}), MAPS),
        said=("503",),
    ),
)
