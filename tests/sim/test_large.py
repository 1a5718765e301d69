"""Objects that are large once they are decoded. R6."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.sync.applier import LARGE_BYTES
from registry_controller.sync.copy_writer import CopyWriter
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate

_COUNT = 12


@pytest.mark.parametrize(("size", "most"), [(LARGE_BYTES, 2), (1024, _COUNT)])
def test_of_one_members_large_objects_few_are_held_at_a_time(
    size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6, P6: while they are written; all of them come in the end."""
    create, held, peaks = CopyWriter.create, [0], [0]

    async def counted(self: CopyWriter, *arguments: Any, **options: Any) -> Any:
        held[0] += 1
        peaks[0] = max(peaks[0], held[0])
        try:
            return await create(self, *arguments, **options)
        finally:
            held[0] -= 1

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group.members
        here.create(rule("maps", CONFIG_MAP))
        await group.settle()
        monkeypatch.setattr(CopyWriter, "create", counted)
        group.wire("a", "a").delay_s = (1.0, 1.0)
        for number in range(_COUNT):
            owner.create(config_map(f"x-{number}", {"text": "x" * size}))
        await group.settle()
        assert len(here.list("ConfigMap")) == _COUNT

    simulate(scenario, n=2)
    assert 0 < peaks[0] <= most
    assert most == 2 or peaks[0] > 2
