"""Dialers of members that nothing describes: the ID that they learn, and connections that are not used any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from registry_controller.api.errors import RegistryError, Unreachable
from registry_controller.api.meta import ClusterUID
from registry_controller.group.dialers import LEAVES_AFTER_S, Context, ContextDialer, LearnedID
from tests.sim.cluster.loop import running_loop, virtual

OLD, NEW = ClusterUID("old"), ClusterUID("new")


class _Reader:
    """A connection to a cluster of that ID."""

    server = "https://a.test"

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.is_closed = False
        self.notify: Callable[[], None] = lambda: None

    async def get(self, *_: Any, **__: Any) -> bytes:
        return f'{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"a","uid":"{self.uid}"}}}}'.encode()

    def on_new_ca(self, notify: Callable[[], None]) -> None:
        self.notify = notify

    async def close(self) -> None:
        self.is_closed = True


@virtual
async def test_another_id_is_believed_once_all_answers_of_thirty_seconds_had_another_one() -> None:
    found, reasons = LearnedID(), list[str]()
    found.on_replaced = reasons.append

    def differs(uid: ClusterUID = NEW) -> None:
        with pytest.raises(RegistryError, match="is another cluster now: it had the ID old, and has new"):
            found.check(uid, server="a")

    found.check(OLD, server="a")
    differs()
    running_loop().advance(LEAVES_AFTER_S - 1)
    differs()
    assert not reasons
    found.check(OLD, server="a")  # it was for a moment
    running_loop().advance(LEAVES_AFTER_S)
    differs()
    assert not reasons
    running_loop().advance(LEAVES_AFTER_S)
    differs()
    assert len(reasons) == 1
    assert found.cluster_id == OLD


@virtual
async def test_a_connection_with_another_certificate_authority_is_not_used_any_more() -> None:
    readers = [_Reader(OLD), _Reader(NEW)]
    ways = iter(readers)

    async def connect(context: Context) -> Any:
        return next(ways)

    dialer = ContextDialer("a", Context(name="a"), connect=connect)
    await dialer.dial()
    assert dialer.cluster_id == OLD
    with pytest.raises(Unreachable, match="another certificate authority"):
        readers[0].notify()
    await asyncio.sleep(0)
    assert readers[0].is_closed
    with pytest.raises(RegistryError, match="another cluster now"):
        await dialer.dial()
    assert readers[1].is_closed


@virtual
async def test_a_user_who_does_not_log_in_makes_a_member_silent_until_it_is_done() -> None:
    """The program of the user (exec) is started once, and ends with the member."""
    goes_on, reader, starts, ends = asyncio.Event(), _Reader(OLD), list[Context](), list[Context]()

    async def connect(context: Context) -> Any:
        starts.append(context)
        try:
            await goes_on.wait()
        except asyncio.CancelledError:
            ends.append(context)
            raise
        return reader

    dialer = ContextDialer("a", Context(name="a"), connect=connect)
    for _ in range(2):
        with pytest.raises(Unreachable, match="does its user log in"):
            await dialer.dial()
    goes_on.set()
    assert await dialer.dial() is reader
    assert len(starts) == 1
    goes_on.clear()
    dialing = asyncio.get_running_loop().create_task(dialer.dial())
    await asyncio.sleep(1.0)
    dialing.cancel()
    await asyncio.sleep(1.0)
    assert (len(starts), len(ends)) == (2, 1)
