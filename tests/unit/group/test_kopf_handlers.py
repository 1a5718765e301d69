"""Handlers of the library in threads, and those that end in a way that no future carries."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import threading
from pathlib import Path
from typing import Any, cast

import kopf
import pytest

from registry_controller.api.errors import InvalidOption
from registry_controller.api.meta import GVK
from registry_controller.api.selection import EVERYTHING
from registry_controller.api.selectors import parse_selector
from registry_controller.group.kopf_handlers import KopfHandlers, RunnableGroup
from registry_controller.group.objects import Object, read_object
from registry_controller.group.watching import Watch
from registry_controller.kube.object import decode_object

MAP = GVK("", "v1", "ConfigMap")


class FedGroup:
    """A group whose only watch is fed by the test."""

    is_running = True

    def watch(self, resource: str, **_: Any) -> Watch:
        self.fed = Watch(
            selection=EVERYTHING,
            labels=parse_selector(""),
            reads_caches=False,
            is_engaged=lambda: True,
            ended=lambda _: None,
        )
        return self.fed


def config_map(name: str) -> Object:
    info = {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": "1"}
    raw = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info}).encode()
    return read_object(decode_object(raw, kind=MAP), kind=MAP, metadata_only=False)


def raise_stop() -> None:
    next(iter(()))


def raise_cancelled() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("fail", [raise_stop, raise_cancelled])
async def test_an_error_that_no_future_carries_is_one_of_its_object(fail: Any) -> None:
    group = FedGroup()
    handlers = KopfHandlers(cast(RunnableGroup, group))
    calls: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    @handlers.on_event("configmaps")
    def on_map(name: str, **_: Any) -> None:
        loop.call_soon_threadsafe(calls.put_nowait, name)
        if name.startswith("bad"):
            fail()

    async with asyncio.timeout(120), handlers._serving():
        await asyncio.sleep(0)
        bad = [f"bad-{number}" for number in range(8)]
        for name in bad:
            group.fed.on_change("b", None, config_map(name), is_relisted=False)
        found = list[str]()
        while any(found.count(name) < 2 for name in bad):
            found.append(await calls.get())
        group.fed.on_change("b", None, config_map("good"), is_relisted=False)
        while await calls.get() != "good":
            pass


async def test_handlers_that_block_in_threads_hold_up_neither_another_member_nor_the_loop() -> None:
    group = FedGroup()
    handlers = KopfHandlers(cast(RunnableGroup, group))
    goes_on, is_free = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @handlers.on_event("configmaps")
    def on_map(cluster: str, **_: Any) -> None:
        if cluster == "free":
            loop.call_soon_threadsafe(is_free.set)
        else:
            goes_on.wait()

    async with handlers._serving():
        await asyncio.sleep(0)
        try:
            for member, number in itertools.product(range(10), range(4)):
                group.fed.on_change(f"blocked-{member}", None, config_map(f"x-{number}"), is_relisted=False)
            await asyncio.sleep(0.1)
            group.fed.on_change("free", None, config_map("x"), is_relisted=False)
            async with asyncio.timeout(30):
                await is_free.wait()
                await asyncio.to_thread(int)
        finally:
            goes_on.set()


OPERATOR = """
import asyncio

import kopf

from registry_controller.group import Group


class Source:
    problem = ""

    async def run(self, found):
        found({})
        await asyncio.sleep(1.0)
        raise RuntimeError("the source has failed")


@kopf.on.login()
def login(**_):
    return kopf.ConnectionInfo(server="http://127.0.0.1:9")


group = Group(Source())


@group.kopf.on_event("configmaps")
async def on_map(**_):
    pass


group.kopf.install()
"""
"""An operator whose group fails. Nothing listens on port 9: kopf goes on to try."""


async def test_an_operator_that_kopf_runs_fails_with_its_group(tmp_path: Path) -> None:
    """kopf would go on without the handlers, and no restart of the Pod would bring them back."""
    program = tmp_path / "operator.py"
    program.write_text(OPERATOR)
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", str(program),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(120):
            output, _ = await running.communicate()
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    assert running.returncode == 1, output.decode()
    assert "the source has failed" in output.decode()


class EnteredGroup(FedGroup):
    """A group that was entered before."""

    is_running = False

    async def __aenter__(self) -> None:
        raise InvalidOption("a group is entered once")

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""


async def test_kopf_starts_no_operator_whose_group_cannot_be_entered() -> None:
    """After another error kopf calls the function again, which does not enter the group again."""
    registry = kopf.OperatorRegistry()
    KopfHandlers(cast(RunnableGroup, EnteredGroup())).install(registry)
    start: Any = registry._activities._handlers[0].fn
    with pytest.raises(kopf.PermanentError, match=r"the members cannot be engaged: .*is entered once"):
        await start()
