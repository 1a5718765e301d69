"""Explanations of objects: the findings, and whether they are complete; `tests/sim/test_explain.py` has groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from registry_controller.api.errors import Forbidden, NotFound, RegistryError
from registry_controller.api.meta import GVK, GVR, OWNER, ClusterUID, ObjectKey, Target
from registry_controller.planner.dry_run import DryRun, PlannedResult
from registry_controller.planner.explain import Explanation, explain_object
from registry_controller.planner.plan import PlanAction
from registry_controller.planner.rule_fit import Fit
from tests.unit.planner.planned_results import KEY, LOCAL, PEER, TARGET, WIDGET, engine, state
from tests.unit.status.engine_parts import FakeCache, FakeClusters, FakePeer, registry, rule

WIDGETS = GVR(WIDGET.group, WIDGET.version, "widgets", True)
FORBIDDEN = Forbidden("get widgets.example.com/v1 default/x: 403 Forbidden", status=403)
MISSING = NotFound("get widgets.example.com/v1 default/x: 404")


def body(**annotations: str) -> bytes:
    metadata = {"name": KEY.name, "namespace": KEY.namespace, "uid": "u", "resourceVersion": "1"}
    return orjson.dumps(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {**metadata, "annotations": annotations}}
    )


class Client:
    """A client, and the discovery of its server, for which one object exists or cannot be read."""

    def __init__(self, answer: bytes | RegistryError) -> None:
        self._answer = answer

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float = 0.0) -> bytes:
        if isinstance(self._answer, RegistryError):
            raise self._answer
        return self._answer

    async def resolve(self, kind: GVK) -> GVR:
        return WIDGETS


class LocalKind(FakeCache):
    """A kind that is watched here, of which no target is to be decided."""

    def may_show(self, key: ObjectKey, *, as_copy: bool) -> bool:
        return False


async def ask(
    local: bytes | RegistryError, remote: bytes | RegistryError, *rules: dict[str, Any], local_cache: bool = False
) -> Explanation:
    parts: Any = engine(
        registry(rules=rules),
        clusters=FakeClusters(peers=[FakePeer()]),
        sources=[FakeCache()],
        copies=[LocalKind()] if local_cache else [],
    )
    peer = Client(remote)
    parts.reconciler = SimpleNamespace(decide=lambda target: SimpleNamespace(state=state(target=target)))
    parts.clusters.connection = lambda uid: SimpleNamespace(reader=peer, discovery=peer)
    parts.orphans = SimpleNamespace(is_complete=True)

    async def plan_targets(targets: set[Target]) -> list[PlannedResult]:
        assert not targets
        return []

    dry_run = SimpleNamespace(engine=parts, local_client=Client(local), plan_targets=plan_targets)
    return await explain_object(cast(DryRun, dry_run), WIDGET, WIDGETS, KEY)


async def test_an_object_of_a_peer_is_its_source_with_the_fits_of_the_rules() -> None:
    found = await ask(MISSING, body(), rule())
    (source,) = found.sources
    assert (source.ref.owner, [fit.fit for fit in source.fits]) == (PEER, [Fit.MATCHES])
    assert (found.is_found, found.is_complete, found.marks, found.owner) == (True, True, None, None)


async def test_an_object_that_was_created_here_is_a_source_of_its_own() -> None:
    found = await ask(body(), MISSING, rule())
    assert [source.ref.owner for source in found.sources] == [LOCAL]
    (row,) = found.planned
    assert (row.action, row.target) == (PlanAction.SKIP, TARGET)
    assert row.message.startswith("it was created here")


async def test_a_copy_names_its_owner_and_its_source() -> None:
    found = await ask(body(**{OWNER: PEER}), MISSING)
    assert (found.owner, found.copied_from and found.copied_from.owner) == (PEER, PEER)
    (row,) = found.planned
    assert (row.reason, row.owner) == ("NoLongerWanted", PEER)


@pytest.mark.parametrize(
    ("local", "remote", "unread", "here"),
    [
        (FORBIDDEN, MISSING, [LOCAL], True),
        (MISSING, FORBIDDEN, [PEER], False),
        (FORBIDDEN, FORBIDDEN, [LOCAL, PEER], True),
    ],
    ids=["here", "at a peer", "everywhere"],
)
async def test_an_object_that_cannot_be_read_may_exist_and_the_rules_are_listed_without_it(
    local: RegistryError, remote: RegistryError, unread: list[ClusterUID], here: bool
) -> None:
    found = await ask(local, remote, rule())
    assert [one.cluster for one in found.unread] == unread
    assert (found.is_found, found.is_complete, found.is_unread_here) == (False, False, here)
    assert [fit.fit for fit in found.rules] == [Fit.UNREAD]


async def test_an_object_that_no_cluster_has_is_not_found_and_no_rules_are_listed() -> None:
    found = await ask(MISSING, MISSING, rule())
    assert (found.is_found, found.is_complete, found.rules) == (False, True, ())


async def test_a_copy_that_cannot_be_read_stays_as_it_is() -> None:
    (row,) = (await ask(FORBIDDEN, MISSING, local_cache=True)).planned
    assert row.reason == "NotWanted"
    assert row.message.endswith("a copy that the daemon may not read stays as it is")
