"""What it says of itself: who it is, which version it has, what it serves, and errors of every kind."""

from __future__ import annotations

from typing import Final

from tests.hostile.cases import CANARY, GOOD, Case
from tests.hostile.server.asking import Ask, Wire, status
from tests.hostile.server.deeds import blank_body, refuses, replies
from tests.hostile.server.stranger import Deed, Stranger
from tests.hostile.server.world import Manifest

_PROOF: Final = "/api/v1/namespaces/kube-system"
_ANOTHER: Final = "is another cluster: the UID of its kube-system namespace is"
_UNREADABLE: Final = "an object without readable metadata"
_NO_UID: Final = "has a uid that is none"
_NOT_READ: Final = "is not read"
_PACED: Final = "is asked again, every few seconds at most"
_FAILED: Final = "Failed"
_OTHER: Final = "99999999-0000-4000-8000-000000000000"


def kube_system(**info: object) -> Manifest:
    """Write the namespace that proves who a cluster is."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", **info}}


def _proof(does: str, happens: str, deed: Deed, *said: str) -> Case:
    return Case(does, happens, lambda server: server.order(deed, _PROOF), said, state=_FAILED)


def _says(does: str, uid: object, *said: str) -> Case:
    return _proof(does, _NOT_READ, replies(kube_system(uid=uid)), *said)


def _changes_its_mind(server: Stranger) -> None:
    """Itself at the first answer, and another cluster at all others; what is open is broken off."""
    first = replies(kube_system(uid=server.uid))
    server.order(_first_then(first, replies(kube_system(uid=_OTHER))), _PROOF)
    server.order(refuses(500, "InternalError"), when=lambda ask: ask.path != _PROOF)


def _first_then(first: Deed, later: Deed) -> Deed:
    was_asked = False

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        nonlocal was_asked
        now, was_asked = (later if was_asked else first), True
        await now(ask, wire, server)

    return deed


def _everywhere(does: str, happens: str, deed: Deed, *said: str) -> Case:
    return Case(does, happens, lambda server: server.order(deed), said, state=_FAILED)


def _redirect(code: int, where: str) -> Deed:
    return replies(b"", code=code, headers={"Location": where})


def _leads_elsewhere(code: int) -> Case:
    """A redirect to a port that counts its visitors: a siege ends only without any."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        await _redirect(code, f"https://127.0.0.1:{server.victims.port}{ask.target}")(ask, wire, server)

    return _everywhere(
        f"redirects to another port, with {code}",
        "no redirect is followed; nobody is dialled there",
        deed,
        f"HTTP {code}",
    )


def _asked(path: str, deed: Deed, does: str, happens: str, *said: str, copied: tuple[str, ...] = (GOOD,)) -> Case:
    return Case(does, happens, lambda server: server.order(deed, path), said, copied=copied)


def _many_kinds() -> Manifest:
    verbs = ["list", "watch"]
    return {"resources": [{"name": f"r{n}", "kind": f"K{n}", "verbs": verbs} for n in range(100_000)]}


def _many_causes() -> bytes:
    return b'{"kind":"Status","code":403,"details":{"causes":[' + b"{}," * 5_000_000 + b"{}]}}"


_DEEP: Final = b'{"metadata":{"name":"kube-system","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"

ANSWERS: Final = (
    _says("has another cluster's ID", _OTHER, _ANOTHER, _OTHER),
    _says("has no ID", "", _ANOTHER),
    _says("has an ID of 1 MiB", "x" * 1024 * 1024, _NO_UID),
    _says("has an ID with line breaks", "a\n{}\x1b[2J", _NO_UID),
    _says("has an ID that is a number", 5, _UNREADABLE),
    Case(
        "has another ID from the second answer on",
        "the connection ends at the next proof",
        _changes_its_mind,
        (_ANOTHER,),
        state=_FAILED,
    ),
    _proof("answers null", _NOT_READ, replies(None), _UNREADABLE),
    _proof("answers with a list in place of an object", _NOT_READ, replies([1]), _UNREADABLE),
    _proof("answers with metadata that is a list", _NOT_READ, replies({"metadata": [1]}), _UNREADABLE),
    _proof(
        "answers with HTML, and 200",
        _NOT_READ,
        replies(b"<html><script>alert(1)</script></html>", headers={"Content-Type": "text/html"}),
        _UNREADABLE,
    ),
    _proof("answers with NaN", _NOT_READ, replies(b'{"metadata":{"name":"kube-system"},"x":NaN}'), _UNREADABLE),
    _proof(
        "answers with bytes that are no UTF-8",
        _NOT_READ,
        replies(b'{"metadata":{"name":"kube-system"},"x":"\xff\xfe"}'),
        _UNREADABLE,
    ),
    _proof(
        "answers with lone surrogates",
        _NOT_READ,
        replies(b'{"metadata":{"name":"kube-system","uid":"\\ud800"}}'),
        _UNREADABLE,
    ),
    _proof("answers with a NUL", _NOT_READ, replies(b'{"metadata":{"name":"kube-system\x00"}}'), _UNREADABLE),
    _proof("answers with 100,000 lists in one another", _NOT_READ, replies(_DEEP), _UNREADABLE),
    _proof("answers with an empty body", _NOT_READ, replies(b""), _UNREADABLE),
    _proof("answers that there is no kube-system", _NOT_READ, refuses(404, "NotFound"), "has no namespace kube-system"),
    _proof("answers who it is without end", "the answer is left at 8 MiB", blank_body(), "the answer is larger than"),
    _everywhere(
        "refuses the token",
        "is asked again; newer credentials are looked for",
        refuses(401, "Unauthorized"),
        "401",
        "newer ones come through any member",
    ),
    _everywhere("grants nothing", _PACED, refuses(403, "Forbidden"), "403"),
    _everywhere("answers 500 for ever", _PACED, refuses(500, "InternalError"), "500"),
    _everywhere("answers 503 with HTML", _PACED, replies(b"<h1>no</h1>", code=503), "503"),
    _everywhere("answers 429 for ever", _PACED, refuses(429, "TooManyRequests"), "429"),
    _everywhere(
        "answers 429, come back in a year",
        "is asked again within a minute",
        refuses(429, "TooManyRequests", headers={"Retry-After": "31536000"}),
        "429",
    ),
    _everywhere(
        "answers 429, come back before now",
        _PACED,
        refuses(429, "TooManyRequests", headers={"Retry-After": "-5"}),
        "429",
    ),
    _everywhere(
        "answers 429, come back at a date",
        _PACED,
        refuses(429, "TooManyRequests", headers={"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}),
        "429",
    ),
    _everywhere(
        "answers 503, come back in garbage", _PACED, refuses(503, "x", headers={"Retry-After": "9" * 60000}), "503"
    ),
    _everywhere(
        "answers 429 with 2^200 seconds in its Status",
        _PACED,
        replies(status(429, "TooManyRequests", details={"retryAfterSeconds": 2**200}), code=429),
        "429",
    ),
    _everywhere("answers with a number that is no status", _PACED, replies(b"", code=299), "HTTP 299"),
    _everywhere(
        "answers errors that quote a secret",
        "its words are not passed on",
        refuses(400, "BadRequest", message=f"the token is {CANARY}"),
        "400",
    ),
    _everywhere(
        "answers errors of 5,000,000 causes", "of an error, 64 KiB are read", replies(_many_causes, code=403), "403"
    ),
    _everywhere("redirects to a file", "no redirect is followed", _redirect(302, "file:///etc/passwd"), "HTTP 302"),
    *(_leads_elsewhere(code) for code in (301, 302, 303, 307, 308)),
    _everywhere("redirects to itself for ever", "no redirect is followed", _redirect(308, _PROOF), "HTTP 308"),
    _asked(
        "/version",
        replies({"gitVersion": 5}),
        "has a version that is a number",
        "its metadata is not said",
        "/version is not what an API server says",
    ),
    _asked(
        "/version",
        replies(lambda: b"v" * 10 * 1024 * 1024),
        "has a version of 10 MiB",
        "is left at 1 MiB",
        "the answer is larger than",
    ),
    _asked(
        "/version",
        replies({"gitVersion": "v1\n\x1b[31m" + "9" * 100_000}),
        "has a version with control characters",
        "nothing of it is passed on",
        copied=(GOOD,),
    ),
    _asked(
        "/api/v1",
        replies([]),
        "serves a list in place of its kinds",
        "its kinds are asked for again",
        "/api/v1 is not what an API server says",
        copied=(),
    ),
    _asked(
        "/api/v1",
        replies(
            {"resources": [{"name": "../secrets", "kind": "ConfigMap", "namespaced": True, "verbs": ["list", "watch"]}]}
        ),
        "serves kinds under names with slashes",
        "no path is made of it",
        "is not served there",
        copied=(),
    ),
    _asked(
        "/api/v1",
        replies(_many_kinds),
        "serves 100,000 kinds",
        "the answer is left at 1 MiB",
        "the answer is larger than",
        copied=(),
    ),
)
