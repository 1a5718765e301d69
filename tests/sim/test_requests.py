"""How many requests a change of a source takes."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from tests.sim.cluster.group import SimGroup, rule, simulate
from tests.sim.cluster.member import Member

WIDGET = {"group": "sim.example", "version": "v1", "kind": "Widget"}


def widget(value: str) -> dict[str, Any]:
    return {"kind": "Widget", "metadata": {"name": "one", "namespace": "default"}, "spec": {"value": value}}


class Requests:
    """Records each request for a Widget that is no watch, as its method."""

    def __init__(self, member: Member) -> None:
        self._answer = member.server.answer
        self.methods: list[str] = []
        patch.object(member.server, "answer", self._record).start()

    def _record(self, method: str, path: str, body: bytes | None, **options: Any) -> Any:
        if "/apis/sim.example/" in path:
            self.methods.append(method)
        return self._answer(method, path, body, **options)


@pytest.mark.parametrize("owner_name", ["a", "b"], ids=["own rule", "copied rule"])
def test_a_change_takes_one_request_here_and_none_at_its_owner(owner_name: str) -> None:
    """A copy that holds nothing of another writer is replaced without being read."""

    async def scenario(group: SimGroup) -> None:
        here, source = group["a"], group["b"]
        await group.join()
        source.create(widget("0"))
        group[owner_name].create(rule("widgets", WIDGET))
        await group.settle()
        at_home, at_owner = Requests(here), Requests(source)
        for number in range(1, 4):
            at_home.methods.clear()
            at_owner.methods.clear()
            source.apply(widget(str(number)))
            await group.settle()
            assert here.get("Widget", "one", namespace="default")["spec"] == {"value": str(number)}
            assert at_home.methods == ["PUT"]
            assert at_owner.methods == []

    simulate(scenario, n=2)
