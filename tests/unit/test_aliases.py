"""What an API server calls itself: asked of one that nobody knows yet, so bounded in number and time. P1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.api.errors import TooMuch, Unreachable
from registry_controller.api.meta import GVR, ClusterUID, ObjectKey
from registry_controller.api.selection import Selection
from registry_controller.engine import aliases
from registry_controller.engine.aliases import Aliases
from registry_controller.kube.connect import PAGES

ID = ClusterUID("id")


class Server:
    """A Reader with `pages` of so many Clusters each; None has one more page, whatever was asked."""

    server = "https://fake.test"

    def __init__(self, pages: int | None, size: int) -> None:
        self.turns = asyncio.Semaphore(PAGES)
        self.asked = 0
        self._pages, self._size = pages, size

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float) -> bytes:
        return json.dumps({"metadata": {"name": key.name, "uid": ID}}).encode()

    async def list_page(self, gvr: GVR, selection: Selection, *, query: Mapping[str, str]) -> bytes:
        await asyncio.sleep(0)
        self.asked += 1
        items = [self._cluster(f"c{self.asked}-{number}") for number in range(self._size)]
        more = "" if self.asked == self._pages else f"t{self.asked}"
        return json.dumps({"metadata": {"continue": more}, "items": items}).encode()

    async def close(self) -> None: ...

    def _cluster(self, name: str) -> dict[str, Any]:
        told = {"apiVersion": meta.API_VERSION, "kind": "Cluster", "metadata": {"name": name}}
        return told | {"spec": {"clusterID": ID}, "status": {"type": "Local"}}


async def names_of(server: Any) -> set[str]:
    asking = Aliases(connect_peer=lambda _: server, changed=lambda: None)
    credentials: Any = None
    return await asking._own_names(ID, credentials)


async def test_p1_the_names_by_which_a_server_calls_itself_are_listed() -> None:
    assert await names_of(Server(2, 2)) == {"c1-0", "c1-1", "c2-0", "c2-1"}


async def test_a_server_that_never_comes_to_an_end_is_left() -> None:
    server = Server(None, 500)
    with pytest.raises(TooMuch, match="more than 256 Clusters"):
        await names_of(server)
    assert server.asked == 1


async def test_a_server_that_is_slow_to_come_to_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aliases, "_LIST_S", 0.05)
    server = Server(None, 0)

    async def slowly(*args: Any, **options: Any) -> bytes:
        await asyncio.sleep(0.02)
        return await Server.list_page(server, *args, **options)

    server.list_page = slowly  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="does not come to an end"):
        await names_of(server)
    assert server.asked < 10
