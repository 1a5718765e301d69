"""What it says of itself: who it is, which version it has, what it serves, and errors of every kind."""

from __future__ import annotations

from typing import Final

from tests.hostile.cases import CANARY, HONEST, Case, Copy
from tests.hostile.server.asking import Ask, Wire, status
from tests.hostile.server.deeds import blank_body, refuses, replies
from tests.hostile.server.stranger import Deed, Stranger
from tests.hostile.server.world import Manifest
from tests.hostile.shown import (
    ASKED,
    CORE,
    MAPS,
    MIB,
    NOT_FOLLOWED,
    NOT_READ,
    PROOF,
    Claim,
    Sight,
    asks_for,
    comes,
    ends,
    holds,
    paced,
    rare,
    requests,
    told,
)

_ANOTHER: Final = "is another cluster: the UID of its kube-system namespace is"
_UNREADABLE: Final = "an object without readable metadata"
_NO_UID: Final = "has an invalid uid"
_FAILED: Final = "Failed"
_OTHER: Final = "99999999-0000-4000-8000-000000000000"
_SOME_KINDS: Final = 4  # of the core group, are read by rules and by what makes the group


def kube_system(**info: object) -> Manifest:
    """Write the namespace that proves who a cluster is."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", **info}}


def _proof(does: str, deed: Deed, *said: str) -> Case:
    return Case(does, (NOT_READ, ASKED), lambda server: server.order(deed, PROOF), said=said, state=_FAILED)


def _says(does: str, uid: object, *said: str) -> Case:
    return _proof(does, replies(kube_system(uid=uid)), *said)


def _changes_its_mind(server: Stranger) -> None:
    """Itself at the first answer, and another cluster at all others; what is open is broken off."""
    first = replies(kube_system(uid=server.uid))
    server.order(_first_then(first, replies(kube_system(uid=_OTHER))), PROOF)
    server.order(refuses(500, "InternalError"), when=lambda ask: ask.path != PROOF)


def _asked_late(sight: Sight) -> list[Ask]:
    """List what was asked for after the third answer that was another's: what was on its way at the second has come."""
    proofs = sight.asked(lambda ask: ask.path == PROOF)
    assert len(proofs) > 3, "it was not asked who it is"
    return [ask for ask, when in zip(sight.server.asked, sight.server.when, strict=False) if when > proofs[3]]


def _is_asked_on(sight: Sight) -> None:
    assert len(_asked_late(sight)) > 1, "it was asked no more"


def _is_left(sight: Sight) -> None:
    assert {ask.path for ask in _asked_late(sight)} == {PROOF}, "it is still read"


def _first_then(first: Deed, later: Deed) -> Deed:
    was_asked = False

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        nonlocal was_asked
        now, was_asked = (later if was_asked else first), True
        await now(ask, wire, server)

    return deed


def _everywhere(does: str, deed: Deed, *said: str, claims: tuple[Claim, ...] = ()) -> Case:
    return Case(does, (*claims, ASKED), lambda server: server.order(deed), said=said, state=_FAILED)


def _to_reading(does: str, claim: Claim, deed: Deed, said: str) -> Case:
    """A server that says who it is, and answers so when ConfigMaps are read."""
    return Case(does, (claim,), lambda server: server.order(deed, MAPS), said=(said,))


def _redirect(code: int, where: str) -> Deed:
    return replies(b"", code=code, headers={"Location": where})


def _leads_elsewhere(code: int) -> Case:
    """A redirect to a port that counts its visitors."""

    async def deed(ask: Ask, wire: Wire, server: Stranger) -> None:
        await _redirect(code, f"https://127.0.0.1:{server.victims.port}{ask.target}")(ask, wire, server)

    return _everywhere(f"redirects to another port, with {code}", deed, f"HTTP {code}", claims=(NOT_FOLLOWED,))


def _asked(
    path: str, deed: Deed, does: str, *claims: Claim, said: tuple[str, ...] = (), copied: tuple[Copy, ...] = HONEST
) -> Case:
    return Case(does, claims, lambda server: server.order(deed, path), said=said, copied=copied)


def _words_stay_out(sight: Sight) -> None:
    assert CANARY not in sight.standing()[1]
    assert CANARY not in sight.home.member.log()


def _no_version(sight: Sight) -> None:
    assert not sight.standing()[0].get("version")


def _plain_version(sight: Sight) -> None:
    assert sight.standing()[0].get("version") == "v1"


def _many_kinds() -> Manifest:
    verbs = ["list", "watch"]
    return {"resources": [{"name": f"r{n}", "kind": f"K{n}", "verbs": verbs} for n in range(100_000)]}


def _many_causes() -> bytes:
    return b'{"kind":"Status","code":403,"details":{"causes":[' + b"{}," * 5_000_000 + b"{}]}}"


_YEAR: Final = "31536000"
_DEEP: Final = b'{"metadata":{"name":"kube-system","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"

_AT_ONE_MIB: Final = ends("is left at its headers, which announce more than 1 MiB")
_KINDS: Final = paced("its kinds are asked for again, every few seconds at most", requests(CORE), each=_SOME_KINDS)
_READ_AGAIN: Final = paced("is asked again, every few seconds at most", requests(MAPS))

_LATER: Final = rare("is not asked again within a minute, the most that it may ask for", requests(MAPS), apart_s=59.9)

ANSWERS: Final = (
    _says("has another cluster's ID", _OTHER, _ANOTHER, _OTHER),
    _says("has no ID", "", _ANOTHER),
    _says("has an ID of 1 MiB", "x" * 1024 * 1024, _NO_UID),
    _says("has an ID with line breaks", "a\n{}\x1b[2J", _NO_UID),
    _says("has an ID that is a number", 5, _UNREADABLE),
    Case(
        "has another ID from the second answer on",
        (Claim("is read no more from the second such answer on", _is_asked_on, _is_left), ASKED),
        _changes_its_mind,
        said=(_ANOTHER,),
        state=_FAILED,
    ),
    _proof("answers null", replies(None), _UNREADABLE),
    _proof("answers with a list in place of an object", replies([1]), _UNREADABLE),
    _proof("answers with metadata that is a list", replies({"metadata": [1]}), _UNREADABLE),
    _proof(
        "answers with HTML, and 200",
        replies(b"<html><script>alert(1)</script></html>", headers={"Content-Type": "text/html"}),
        "answers with a web page",
    ),
    _proof("answers with NaN", replies(b'{"metadata":{"name":"kube-system"},"x":NaN}'), _UNREADABLE),
    _proof(
        "answers with bytes that are no UTF-8",
        replies(b'{"metadata":{"name":"kube-system"},"x":"\xff\xfe"}'),
        _UNREADABLE,
    ),
    _proof(
        "answers with lone surrogates", replies(b'{"metadata":{"name":"kube-system","uid":"\\ud800"}}'), _UNREADABLE
    ),
    _proof("answers with a NUL", replies(b'{"metadata":{"name":"kube-system\x00"}}'), _UNREADABLE),
    _proof("answers with 100,000 lists in one another", replies(_DEEP), _UNREADABLE),
    _proof("answers with an empty body", replies(b""), _UNREADABLE),
    _proof("answers that there is no kube-system", refuses(404, "NotFound"), "has no namespace kube-system"),
    Case(
        "answers the identity check without end",
        (ends("the answer is left at 8 MiB", at_bytes=8 * MIB), ASKED),
        lambda server: server.order(blank_body(), PROOF),
        said=("the answer is larger than 8 MiB",),
        state=_FAILED,
    ),
    _everywhere(
        "refuses the token",
        refuses(401, "Unauthorized"),
        "401",
        "newer ones come through any member",
        claims=(told("the status of its Cluster explains where newer credentials come from"),),
    ),
    _everywhere("grants nothing", refuses(403, "Forbidden"), "403"),
    _everywhere("answers 500 for ever", refuses(500, "InternalError"), "500"),
    _everywhere("answers 503 with HTML", replies(b"<h1>no</h1>", code=503), "503"),
    _everywhere("answers 429 for ever", refuses(429, "TooManyRequests"), "429"),
    _everywhere(
        "answers 429 to the identity check, come back in a year",
        refuses(429, "TooManyRequests", headers={"Retry-After": _YEAR}),
        "429",
    ),
    _to_reading(
        "answers 429 to lists and watches, come back in a year",
        _LATER,
        refuses(429, "TooManyRequests", headers={"Retry-After": _YEAR}),
        "429",
    ),
    _to_reading(
        "answers 429 to lists and watches, come back before now",
        _READ_AGAIN,
        refuses(429, "TooManyRequests", headers={"Retry-After": "-5"}),
        "429",
    ),
    _to_reading(
        "answers 429 to lists and watches, come back at a date",
        _READ_AGAIN,
        refuses(429, "TooManyRequests", headers={"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}),
        "429",
    ),
    _to_reading(
        "answers 503 to lists and watches, come back in garbage",
        _READ_AGAIN,
        refuses(503, "x", headers={"Retry-After": "9" * 60000}),
        "503",
    ),
    _to_reading(
        "answers 429 to lists and watches, with 10^400 seconds in its Status",
        _LATER,
        replies(status(429, "TooManyRequests", details={"retryAfterSeconds": 10**400}), code=429),
        "429",
    ),
    _everywhere("answers with a number that is no status", replies(b"", code=299), "HTTP 299"),
    _everywhere(
        "answers errors that quote a secret",
        refuses(400, "BadRequest", message=f"the token is {CANARY}"),
        "400",
        claims=(holds("its words are not passed on", _words_stay_out),),
    ),
    _everywhere(
        "answers errors of 5,000,000 causes",
        replies(_many_causes, code=403),
        "403",
        claims=(ends("the connection ends before 6 MiB of them are sent"),),
    ),
    _everywhere("redirects to a file", _redirect(302, "file:///etc/passwd"), "HTTP 302", claims=(NOT_FOLLOWED,)),
    *(_leads_elsewhere(code) for code in (301, 302, 303, 307, 308)),
    _everywhere("redirects to itself for ever", _redirect(308, PROOF), "HTTP 308", claims=(NOT_FOLLOWED,)),
    _asked(
        "/version",
        replies({"gitVersion": 5}),
        "has a version that is a number",
        holds("no version is reported", _no_version),
        said=("/version is no answer of an API server",),
    ),
    _asked(
        "/version",
        replies(lambda: b"v" * 10 * 1024 * 1024),
        "has a version of 10 MiB",
        _AT_ONE_MIB,
        holds("no version is reported", _no_version),
        said=("the answer is larger than 1 MiB",),
    ),
    _asked(
        "/version",
        replies({"gitVersion": "v1\n\x1b[31m" + "9" * 100_000}),
        "has a version with control characters",
        comes("the text before them is reported: `v1`", _plain_version),
    ),
    _asked(
        CORE,
        replies([]),
        "serves a list in place of its kinds",
        _KINDS,
        said=("/api/v1 is no answer of an API server",),
        copied=(),
    ),
    _asked(
        CORE,
        replies(
            {"resources": [{"name": "../secrets", "kind": "ConfigMap", "namespaced": True, "verbs": ["list", "watch"]}]}
        ),
        "serves kinds under names with slashes",
        asks_for("no path is made of it", lambda ask: ".." not in ask.target and "secrets" not in ask.path),
        _KINDS,
        said=("is not served there",),
        copied=(),
    ),
    _asked(
        CORE,
        replies(_many_kinds),
        "serves 100,000 kinds",
        _AT_ONE_MIB,
        rare("is not asked again for half a minute", requests(CORE), each=_SOME_KINDS),
        said=("the answer is larger than 1 MiB",),
        copied=(),
    ),
)
