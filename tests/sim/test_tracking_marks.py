"""The marks of tools that applied a source do not reach its copies, and go from those that have them. W6, A1."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api import meta
from registry_controller.core.mutation import mutate
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate

LABELS = {"sync": "yes", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "Helm"}
ANNOTATIONS = {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:default/one", "note": "kept"}


def _rule(**mutations: Any) -> dict[str, Any]:
    made = rule(
        "wishes", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": {"sync": "yes"}}]}], "mutations": mutations}
    )
    made["metadata"]["annotations"] = {meta.SYNC_DISABLED: "true"}
    return made


def _texts(group: SimGroup) -> tuple[set[str], set[str]]:
    info = group["a"].get("ConfigMap", "one", namespace="default")["metadata"]
    ours = (meta.OWNER, meta.PROVENANCE)
    return set(info["labels"]).difference(ours), set(info["annotations"]).difference(ours)


@pytest.mark.clause("W6")
def test_marks_that_an_earlier_version_copied_go_with_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(group: SimGroup) -> None:
        with monkeypatch.context() as earlier:
            earlier.setattr(mutate, "find_tracking_marks", lambda *_, **__: {})
            await group.join()
            here, owner = group["a"], group["b"]
            here.create(_rule())
            owner.create(config_map("one", {"value": "1"}, labels=LABELS, annotations=ANNOTATIONS))
            await group.settle()
            assert _texts(group) == (set(LABELS), set(ANNOTATIONS))
            await here.stop()
        began = len(here.server.journal)
        here.start()
        await group.settle()
        assert _texts(group) == ({"sync"}, {"note"})
        writes = [one for one in here.server.journal[began:] if one.kind == "ConfigMap" and one.key.name == "one"]
        assert [one.verb for one in writes] == ["update"]
        assert await group.writes_within(60.0) == []

    simulate(scenario, n=2)


@pytest.mark.clause("W6")
def test_a_rule_may_set_a_tracking_mark_and_another_client_here_keeps_its_own() -> None:
    """A1: labels of other writers stay."""

    async def scenario(group: SimGroup) -> None:
        await group.join()
        here, owner = group["a"], group["b"]
        here.create(_rule(labels={"add": {"app.kubernetes.io/instance": "copies"}}))
        owner.create(config_map("one", {"value": "1"}, labels=LABELS, annotations=ANNOTATIONS))
        await group.settle()
        found = here.get("ConfigMap", "one", namespace="default")
        assert found["metadata"]["labels"]["app.kubernetes.io/instance"] == "copies"
        info = {"name": "one", "namespace": "default", "annotations": {"argocd.argoproj.io/tracking-id": "here"}}
        here.write_as("argocd", {"kind": "ConfigMap", "metadata": info})
        await group.settle()
        found = here.get("ConfigMap", "one", namespace="default")
        assert found["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] == "here"

    simulate(scenario, n=2)
