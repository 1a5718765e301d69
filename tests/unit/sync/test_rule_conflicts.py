"""W2: which rules that want a source at the same place make something else of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.syncrule import read_rule
from registry_controller.cache.source_index import Offer
from registry_controller.core.mutation.mutate import TemplateContext, build_copy
from registry_controller.core.rules.active import Hit
from registry_controller.core.rules.policy import Barrier
from registry_controller.sync.rule_conflicts import hits_beside, losers_of

OWNER, ELSEWHERE = ClusterUID("owner"), ClusterUID("elsewhere")
KIND, KEY = GVK("test.example.com", "v1", "Widget"), ObjectKey("default", "one")
SOURCE: dict[str, Any] = {
    "apiVersion": "test.example.com/v1", "kind": "Widget",
    "metadata": {"namespace": "default", "name": "one", "uid": "u"}, "spec": {"n": 1}, "status": {"phase": "Ready"},
}  # fmt: skip

NO_CONTEXT = TemplateContext()


def hit(name: str, mutations: dict[str, Any] | None = None, **more: Any) -> Hit:
    kind = {"group": KIND.group, "version": KIND.version, "kind": KIND.kind}
    entry = {"mutations": mutations or {}}
    rule = read_rule({"metadata": {"name": name, "uid": name}, "spec": {"groupVersionKind": kind, "rules": [entry]}})
    return Hit((name, OWNER, name), name, OWNER, "Orphan", rule.entries, KIND, NO_CONTEXT)._replace(**more)


def offer_of(*hits: Hit, peer: ClusterUID = OWNER, kind: GVK = KIND, key: ObjectKey = KEY) -> Offer:
    cache: Any = SimpleNamespace(peer=peer, kind=kind)
    record: Any = SimpleNamespace(hits=hits)
    return Offer(cache, key, record, hits[0])


def losers(*hits: Hit) -> tuple[str, ...]:
    offer = offer_of(*hits)
    ours = build_copy(SOURCE, KIND, hits[0].entries, owner=OWNER)
    return losers_of(offer, ours, SOURCE, owner=OWNER)


BROKEN = {"overrides": [{"type": "replace", "path": "/spec/missing/field", "value": "1"}]}


@pytest.mark.parametrize(
    ("younger", "loses"),
    [
        pytest.param(hit("b"), False, id="the same entries"),
        pytest.param(hit("b", {"labels": {"remove": ["none"]}}), False, id="other entries and the same copy"),
        pytest.param(hit("b", {"labels": {"add": {"a": "b"}}}), True, id="another label"),
        pytest.param(hit("b", {"syncStatus": True}), True, id="the same copy and a status"),
        pytest.param(hit("b", BROKEN), True, id="nothing, for an error"),
        pytest.param(
            hit("b", {"labels": {"add": {"a": "b"}}}, barrier=Barrier.CLOSED), False, id="a rule that may not write"
        ),
        pytest.param(
            hit("b", {"labels": {"add": {"a": "b"}}}, moved_to=Target("", "Widget", "else", "one")), False,
            id="a copy at another place",
        ),
    ],
)  # fmt: skip
def test_a_younger_rule_loses_where_it_makes_something_else(younger: Hit, loses: bool) -> None:
    assert losers(hit("a"), younger) == (("b",) if loses else ())


def test_of_many_younger_rules_the_losers_are_named_in_their_order() -> None:
    assert losers(hit("a"), hit("b", BROKEN), hit("c"), hit("d", BROKEN)) == ("b", "d")


def test_the_same_source_in_another_version_of_its_kind_is_beside() -> None:
    version = KIND._replace(version="v2")
    ours, other = offer_of(hit("a")), offer_of(hit("b"), kind=version)
    barred = offer_of(hit("c", barrier=Barrier.CLOSED), kind=version)
    strange = offer_of(hit("d"), kind=KIND._replace(kind="Gadget"))
    found = [ours, other, barred, strange, offer_of(hit("e"), kind=version, peer=ELSEWHERE),
             offer_of(hit("f"), kind=version, key=ObjectKey("default", "two"))]  # fmt: skip
    assert [held.rule for held in hits_beside(ours, found)] == ["b"]
