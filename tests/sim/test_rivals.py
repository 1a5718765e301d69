"""Two owners of one name: who wins, what the loser's rule says, and who takes over. O8."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.meta import OWNER, SYNC_DISABLED
from tests.sim.group import CONFIG_MAP, SimGroup, config_map, rule, simulate

LABELS = {"sync": "yes"}


def _entry(group: SimGroup, owner: str) -> dict[str, Any]:
    clusters = group["a"].get("ResourceSyncRule", "rivals").get("status", {}).get("clusters", [])
    return next((entry for entry in clusters if entry["clusterID"] == group[owner].id), {})


@pytest.mark.parametrize("first", ["b", "c"], ids=["the older comes first", "the younger comes first"])
@pytest.mark.parametrize("restarted", [False, True], ids=["up", "restarted"])
def test_the_older_source_wins_and_the_loser_is_said_and_takes_over(first: str, restarted: bool) -> None:
    """O8: whoever came first, and without a restart when the winner goes."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        rivals = rule("rivals", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]})
        rivals["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
        group["a"].create(rivals)
        for owner in (first, "c" if first == "b" else "b"):
            made = config_map("one", {"from": owner}, labels=LABELS)
            group[owner].create(made, born=f"2025-01-0{1 if owner == 'b' else 2}T00:00:00Z")
            await group.settle()
        if restarted:
            await group["a"].restart()
            await group.settle()
        copy = group["a"].get("ConfigMap", "one", namespace="default")
        assert copy["data"] == {"from": "b"}
        assert copy["metadata"]["annotations"][OWNER] == group["b"].id
        assert (_entry(group, "b")["synced"], _entry(group, "b")["conflicting"]) == (1, 0)
        assert (_entry(group, "c")["synced"], _entry(group, "c")["conflicting"]) == (0, 1)
        assert group["b"].id in _entry(group, "c")["failures"][0]["message"]
        assert group["a"].condition("ResourceSyncRule", "rivals", "Synced")["reason"] == "Conflict"
        group["b"].delete("ConfigMap", "one", namespace="default")
        await group.settle()
        assert group["a"].get("ConfigMap", "one", namespace="default")["data"] == {"from": "c"}
        assert _entry(group, "c")["conflicting"] == 0
        assert group["a"].condition("ResourceSyncRule", "rivals", "Synced")["status"] == "True"

    simulate(scenario, n=3)
