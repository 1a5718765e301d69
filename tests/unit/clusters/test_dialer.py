"""Reaching a peer when its own credentials do not work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from registry_controller.api.errors import Unauthorized
from registry_controller.api.meta import ClusterUID
from registry_controller.clusters.dialer import Dialer
from registry_controller.kube.kubeconfig import Credentials
from tests.unit.clusters.builders import credentials


class Hearsay:
    """Other members that hold nothing, and are asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def credentials_for(self, name: str, held: object, *, refused: bool) -> Sequence[Any]:
        self.asked.append(name)
        return ()

    def reset(self) -> None:
        raise AssertionError("nobody answered")


async def test_others_are_asked_by_the_name_that_its_cluster_has_now() -> None:
    """A Cluster may get another name, with the same ID and the same Secret."""
    others = Hearsay()
    held: Any = object()

    def connect(_: object) -> Any:
        raise AssertionError("nobody is dialled")

    dialler = Dialer(cluster_id=ClusterUID("1"), name="old", credentials=held, connect_peer=connect, relayed=others)
    dialler.set_credentials("new", held)
    assert await dialler.dial_with_relayed(Unauthorized("401", status=401)) is None
    assert others.asked == ["new"]


class Line:
    """A connection that proves an ID, or refuses the credentials."""

    def __init__(self, credentials: Any, *, works: bool) -> None:
        self.server, self.credentials, self.works = "b", credentials, works

    async def close(self) -> None:
        pass


def _dialer(own: Credentials, *others: Credentials, working: set[str]) -> Dialer:
    dialer = Dialer(
        cluster_id=ClusterUID("1"),
        name="b",
        credentials=own,
        others=others,
        connect_peer=lambda way: Line(way, works=way.token in working),  # type: ignore[arg-type,return-value]
        relayed=Hearsay(),
    )

    async def prove(reader: Any, credentials: Any) -> None:
        if not reader.works:
            raise Unauthorized("401", status=401)

    dialer._prove = prove  # type: ignore[assignment]
    return dialer


OWN = credentials("b")
OTHER = replace(OWN, token="other")


@pytest.mark.clause("P7")
async def test_another_way_is_tried_before_the_own_one_counts_as_failed() -> None:
    dialer = _dialer(OWN, OTHER, working={"other"})
    reader: Any = await dialer.dial()
    assert (reader.credentials, dialer.problem) == (OTHER, "401")
    assert dialer.is_used(OTHER)


async def test_the_error_of_the_own_credentials_is_reported_when_no_way_works() -> None:
    with pytest.raises(Unauthorized):
        await _dialer(OWN, OTHER, working=set()).dial()


@pytest.mark.clause("P7")
async def test_a_way_that_is_not_here_any_more_ends_the_connection() -> None:
    dialer = _dialer(OWN, OTHER, working={"other"})
    await dialer.dial()
    dialer.set_credentials("b", OWN, ())
    assert await dialer.dial_with_changed() is None


@pytest.mark.clause("P7")
async def test_the_own_credentials_are_used_again_once_they_work() -> None:
    working = {"other"}
    dialer = _dialer(OWN, OTHER, working=working)
    await dialer.dial()
    working.add(OWN.token)
    reader: Any = await dialer.dial_with_changed()
    assert (reader.credentials, dialer.problem) == (OWN, "")
