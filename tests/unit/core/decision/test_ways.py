"""Which credentials lead to a peer, and in which order they are tried: a table. P7."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.core.decision.ways import is_withdrawn, other_ways, unnamed_secrets, ways_after


class FakeWay(NamedTuple):
    """Credentials for a server."""

    verified_address: str
    token: str = "first"


OWN, RENEWED, MOVED = FakeWay("b"), FakeWay("b", "second"), FakeWay("elsewhere")


@pytest.mark.parametrize(
    ("own", "aliases", "unnamed", "as_stored", "others"),
    [
        (OWN, [], [], [], ()),
        (OWN, [RENEWED], [MOVED], [], (RENEWED, MOVED)),
        (OWN, [OWN], [OWN, RENEWED, RENEWED], [OWN], (RENEWED,)),
        (None, [OWN], [RENEWED], [], (OWN, RENEWED)),
        (MOVED, [], [RENEWED], [OWN], (RENEWED, OWN)),
    ],
    ids=[
        "no other",
        "what a person carried here comes first",
        "each once, without the own",
        "without usable own ones",
        "at the address in the Secret, last",
    ],
)
def test_the_other_ways_to_a_peer(
    own: FakeWay | None,
    aliases: list[FakeWay],
    unnamed: list[FakeWay],
    as_stored: list[FakeWay],
    others: tuple[FakeWay, ...],
) -> None:
    assert other_ways(own, aliases=aliases, unnamed=unnamed, as_stored=as_stored) == others


@pytest.mark.parametrize(
    ("is_refused", "tried"),
    [(True, [RENEWED, MOVED]), (False, [MOVED])],
    ids=["the server refused the credentials", "the server did not answer"],
)
def test_the_ways_that_are_tried_after_the_own(is_refused: bool, tried: list[FakeWay]) -> None:
    assert ways_after(OWN, (RENEWED, MOVED), is_refused=is_refused) == tried


@pytest.mark.parametrize(
    ("used", "others", "withdrawn"),
    [(OWN, (), False), (RENEWED, (RENEWED,), False), (RENEWED, (MOVED,), True), (RENEWED, (), True)],
)
def test_a_way_that_is_not_here_any_more_is_withdrawn(
    used: FakeWay, others: tuple[FakeWay, ...], withdrawn: bool
) -> None:
    assert is_withdrawn(used, first=OWN, others=others) is withdrawn


def test_the_secrets_of_a_member_that_no_cluster_names() -> None:
    owners = {"b": "id-b", "b-old": "id-b", "a-old": "id-b", "c": "id-c"}
    owned = [(ObjectKey("registry", name), ClusterUID(owner)) for name, owner in owners.items()]
    found = unnamed_secrets(owned, member=ClusterUID("id-b"), named=[ObjectKey("registry", "b")])
    assert found == [ObjectKey("registry", "a-old"), ObjectKey("registry", "b-old")]
