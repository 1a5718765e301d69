"""Reads of the cache, as handlers make them in threads while the loop changes it."""

from __future__ import annotations

import asyncio
import json
import sys

from registry_controller.api.meta import GVK
from registry_controller.api.selection import EVERYTHING
from registry_controller.api.selectors import Selector
from registry_controller.group.shown_objects import list_objects
from registry_controller.group.streams import MemberStream, StreamRequest
from registry_controller.kube.object import PartialObject, decode_object

KIND = GVK("", "v1", "ConfigMap")
COUNT = 2000


def _map(number: int) -> PartialObject:
    info = {"name": f"x-{number}", "namespace": "n", "uid": f"u-{number}", "resourceVersion": str(number + 1)}
    return decode_object(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": info}).encode())


async def test_a_thread_lists_while_objects_come_and_go() -> None:
    request = StreamRequest("configmaps", EVERYTHING, metadata_only=True)
    stream = MemberStream("a", request, by_context=False, others=lambda _: (), refused=lambda _: None)
    stream.kind = KIND
    objects = [_map(number) for number in range(COUNT)]
    for obj in objects[: COUNT // 2]:
        stream.on_object(obj)
    stream.on_synced(COUNT)
    is_over = False

    def read() -> int:
        times = 0
        while not is_over:
            assert list_objects([stream], namespace="another", labels=Selector()) == []
            times += 1
        return times

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reading = asyncio.get_running_loop().create_task(asyncio.to_thread(read))
        for _ in range(50):
            for obj in objects[COUNT // 2 :]:
                stream.on_object(obj)
            for obj in objects[COUNT // 2 :]:
                stream.on_delete(obj.key, None)
            await asyncio.sleep(0)
        is_over = True
        assert await reading
    finally:
        is_over = True
        sys.setswitchinterval(before)
