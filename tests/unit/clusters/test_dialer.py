"""Reaching a peer when its own credentials do not work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry_controller.api.errors import Unauthorized
from registry_controller.api.meta import ClusterUID
from registry_controller.clusters.dialer import Dialer


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
    credentials: Any = object()

    def connect(_: object) -> Any:
        raise AssertionError("nobody is dialled")

    dialler = Dialer(
        cluster_id=ClusterUID("1"), name="old", credentials=credentials, connect_peer=connect, relayed=others
    )
    dialler.set_credentials("new", credentials)
    assert await dialler.dial_with_relayed(Unauthorized("401", status=401)) is None
    assert others.asked == ["new"]
