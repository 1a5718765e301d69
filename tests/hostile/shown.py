"""What a row of the table says, and how it is shown: words that nothing shows cannot be written into the docs.

A claim's words are a part of the row's second column. `comes` is waited for, `holds` is looked at when all rows of the
family have stood together for a while; both raise AssertionError where it is not so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.hostile.server.asking import Ask
from tests.hostile.server.deeds import BOMB_MIB
from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import Manifest

if TYPE_CHECKING:
    from tests.hostile.home import Home

MIB: Final = 1024 * 1024
PROOF: Final = "/api/v1/namespaces/kube-system"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
CORE: Final = "/api/v1"

_AT_ONCE: Final = 12  # pauses double from 0.2 s to 5 s, each a random part of it: so many may be over in a moment
_APART_S: Final = 1.5  # on average, where 2.5 s are meant: chance takes this away once in millions of rows
_GROWING: Final = 6  # so many tries have shorter pauses before them
_ALL_APART_S: Final = 2.0  # on average over all rows of a family, which leaves less to chance
_RARELY_S: Final = 29.9
_BEGINNINGS: Final = 2  # what is heard is asked for anew, once, when it is known what its server offers to be read
_SLACK_BYTES: Final = 6 * MIB  # what waits in buffers of the kernel, of TLS and of the daemon
_GROWN_BYTES: Final = 40 * MIB  # where the daemon reads for a while, the kernel's have grown up to 32 MiB


@dataclass(frozen=True, slots=True)
class Sight:
    """What there is to be seen of one row.

    `copies` are the copies that it had to have, as they were when they had come; `words` are those that it had to say,
    and did. `grown_mib` is what the daemon has grown by. `latencies` are how long what an honest peer changed took to
    come, again and again, in seconds; `own` is what was home's own at first. `standing` asks for its Cluster's status,
    and for all that its Cluster and the rules say of it now; `beside` lists the rows of its family, itself among
    them, that make the same claim.
    """

    home: Home
    server: Stranger
    copies: Mapping[str, Manifest]
    words: Sequence[object]
    lasted_s: float
    grown_mib: float
    standing: Callable[[], tuple[Manifest, str]]
    latencies: Sequence[float]
    own: Mapping[str, object]
    beside: Callable[[Claim], Sequence[Sight]]

    def asked(self, concerns: Callable[[Ask], bool]) -> list[float]:
        """List the moments of some requests."""
        return [when for ask, when in zip(self.server.asked, self.server.when, strict=False) if concerns(ask)]


Check = Callable[[Sight], None]
Count = Callable[[Sight], Sequence[float]]
"""Lists the moments of what is counted."""


def nothing(sight: Sight) -> None:
    """Show nothing: the other half of the claim does."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Words, and what shows them."""

    words: str
    comes: Check = nothing
    holds: Check = nothing


# What may be counted.


def dials(sight: Sight) -> Sequence[float]:
    return sight.server.dialled


def requests(path: str, *, initial: bool | None = None) -> Count:
    """Count what is asked for under one path; where it is said, only watches that do, or do not, ask what exists."""
    return lambda sight: sight.asked(
        lambda ask: ask.path == path and (initial is None or (ask.is_watch and ask.wants_initial is initial))
    )


def watches(path: str) -> Count:
    return lambda sight: sight.asked(lambda ask: ask.path == path and ask.is_watch)


def lists(path: str) -> Count:
    """Count the beginnings of lists; one is asked for in smaller pages, or begun again, in one go."""
    return lambda sight: sight.asked(lambda ask: ask.path == path and is_list(ask) and _begins(ask))


def is_list(ask: Ask) -> bool:
    """Say whether a request is for a list."""
    return not ask.is_watch and "fieldSelector" not in ask.query


def _begins(ask: Ask) -> bool:
    return "continue" not in ask.query and ask.query.get("limit") == "500"


def _lately(sight: Sight, count: Count) -> list[float]:
    """Leave out what was asked for before an honest server turned."""
    return [when for when in count(sight) if when >= sight.server.turned_at]


# What may be said.


def paced(words: str, count: Count, *, each: int = 1) -> Claim:
    """Claim that something is done again, and not in a rush; `each` time so many requests are counted."""

    def comes(sight: Sight) -> None:
        assert len(_lately(sight, count)) >= 2 * each, f"it is not tried again: {words}"

    def holds(sight: Sight) -> None:
        tries, most = len(_lately(sight, count)) / each, _AT_ONCE + sight.lasted_s / _APART_S
        assert tries <= most, f"{tries:.0f} times in {sight.lasted_s:.0f} s: {words}"
        _hold_together(claim, count, each, sight.beside(claim))

    claim = Claim(words, comes, holds)
    return claim


def _hold_together(claim: Claim, count: Count, each: int, sights: Sequence[Sight]) -> None:
    """Count the tries of several rows together, from when their pauses have grown: on a slow machine, a row has few."""
    tries, lasted_s = 0, 0.0
    for sight in sights:
        found = _lately(sight, count)
        if len(found) > _GROWING * each:
            tries += (len(found) - _GROWING * each) // each
            lasted_s += time.monotonic() - found[_GROWING * each - 1]
    most = _AT_ONCE + lasted_s / _ALL_APART_S
    assert tries <= most, f"{tries} times in {lasted_s:.0f} s, all together: {claim.words}"


def rare(words: str, count: Count, *, each: int = 1, apart_s: float = _RARELY_S) -> Claim:
    """Claim that something is asked for, and not again for so long, if the siege lasts so long; `each` as above."""

    def comes(sight: Sight) -> None:
        assert _lately(sight, count), words

    def holds(sight: Sight) -> None:
        found = _lately(sight, count)
        gaps = [later - earlier for earlier, later in zip(found, found[_BEGINNINGS * each :], strict=False)]
        assert all(gap >= apart_s for gap in gaps), f"after {min(gaps):.1f} s: {words}"

    return Claim(words, comes, holds)


def ends(words: str, *, at_bytes: int = 0) -> Claim:
    """Claim that no more of an answer is taken than so much, and what waits in buffers."""

    def comes(sight: Sight) -> None:
        assert sight.server.most_sent >= at_bytes, words

    def holds(sight: Sight) -> None:
        sent = sight.server.most_sent
        assert sent <= at_bytes + (_GROWN_BYTES if at_bytes else _SLACK_BYTES), (
            f"{sent / MIB:.1f} MiB were taken: {words}"
        )

    return Claim(words, comes, holds)


def stays(words: str) -> Claim:
    """Claim that what had come is as it was; that it is so is looked at in every row that has copies."""

    def holds(sight: Sight) -> None:
        assert sight.copies, "there was nothing that could stay"

    return Claim(words, holds=holds)


def told(words: str) -> Claim:
    """Claim what the third column's words tell, for which the row has waited: they are said for this reason only."""

    def comes(sight: Sight) -> None:
        assert sight.words, words

    return Claim(words, comes)


def asks_for(words: str, allowed: Callable[[Ask], bool]) -> Claim:
    """Claim that nothing else is ever asked for."""

    def holds(sight: Sight) -> None:
        others = [ask.target for ask in sight.server.asked if not allowed(ask)]
        assert not others, f"{others[:3]}: {words}"

    return Claim(words, holds=holds)


def holds(words: str, check: Check) -> Claim:
    return Claim(words, holds=check)


def comes(words: str, check: Check) -> Claim:
    return Claim(words, comes=check)


def own_stays(sight: Sight) -> None:
    """Look whether what was home's own at first is as it was."""
    assert sight.home.own() == sight.own


def _small(sight: Sight) -> None:
    assert sight.grown_mib < BOMB_MIB


def _served(sight: Sight) -> None:
    assert sight.latencies
    assert max(sight.latencies) <= sight.home.follow_s


def _not_followed(sight: Sight) -> None:
    assert {ask.path for ask in sight.server.asked} == {PROOF}, "it went elsewhere"
    assert len(sight.server.asked) <= len(sight.server.dialled), "it went there again"
    assert sight.home.elsewhere.visits == 0, "somebody was led elsewhere"


DIALLED: Final = paced("is dialled again, every few seconds at most", dials)
NOT_READ: Final = asks_for("is not read", lambda ask: ask.path == PROOF)
ASKED: Final = paced("is asked again, every few seconds at most", requests(PROOF))
LISTED: Final = paced("is listed again, every few seconds at most", lists(MAPS))
WATCHED: Final = paced("is watched again, every few seconds at most", watches(MAPS))
LISTED_AGAIN: Final = paced(
    "everything is listed again when the stream ends, every few seconds at most", requests(MAPS, initial=True)
)
LISTED_RARELY: Final = rare("is left, and not listed again for half a minute", lists(MAPS))
STAYS: Final = stays("the objects read before stay")
NOT_DELETED: Final = stays("nothing is deleted")
NOT_DECOMPRESSED: Final = holds("nothing is decompressed", _small)
NOT_FOLLOWED: Final = holds("no redirect is followed", _not_followed)
SERVED: Final = holds("other members are served meanwhile", _served)
