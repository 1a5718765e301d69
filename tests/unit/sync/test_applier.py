"""A1, O3: what is written is what was judged, made of the source that was judged."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from registry_controller.api import meta
from registry_controller.api.errors import ApiError, NotFound
from registry_controller.api.meta import GVK, GVR, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.provenance import Provenance, RuleGeneration
from registry_controller.api.syncrule import read_rule
from registry_controller.cache.source_index import Offer
from registry_controller.cache.write_results import Rendered
from registry_controller.core.decision.decision import Apply, Decision, Delete, Hold, Reason, Skip
from registry_controller.core.decision.marks import NATIVE, Marks, Voice
from registry_controller.core.decision.state import Claim, CurrentCopy, MembershipState, TargetState
from registry_controller.core.diff.remainder import NOTHING_REMAINS
from registry_controller.core.mutation.mutate import TemplateContext
from registry_controller.core.rules.active import Hit
from registry_controller.kube.object import decode_object
from registry_controller.sync.applier import Applier, SourceReader
from registry_controller.sync.desired_copy import DesiredCopy
from registry_controller.sync.gone_copies import GoneCopies
from registry_controller.sync.origin_reader import MadeFrom
from registry_controller.sync.reconciler import Judgment, Result
from registry_controller.watch.body_cache import BodyCache, BodyKey
from registry_controller.watch.fairness import EvaluationLimiter

OWNER, LOCAL = ClusterUID("11111111-1111-1111-1111-111111111111"), ClusterUID("local")
KIND, KEY = GVK("", "v1", "ConfigMap"), ObjectKey("default", "one")
TARGET = Target("", "ConfigMap", *KEY)

NO_CONTEXT = TemplateContext()
HERE = CurrentCopy(Marks(OWNER, None, sync_disabled=False, go_written=False), "here", 3)


def hit(name: str, *, added: str = "") -> Hit:
    entry = {"mutations": {"labels": {"add": {"by": added}}}} if added else {}
    spec = {"groupVersionKind": {"version": "v1", "kind": "ConfigMap"}, "rules": [entry]}
    rule = read_rule({"metadata": {"name": name, "uid": name}, "spec": spec})
    return Hit((name, LOCAL, name), name, LOCAL, "Orphan", rule.entries, KIND, NO_CONTEXT)


def body(revision: int, *, size: int = 0) -> bytes:
    metadata = {"namespace": "default", "name": "one", "uid": "uid", "resourceVersion": str(revision)}
    data = {"n": "1", "pad": "x" * size}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).encode()


RULE: Any = SimpleNamespace(generation=RuleGeneration("u", 7), revision_at_owner=9)


class Bench:
    """An applier, its peer, and what is written here; `hits` are those of the source at revision 7."""

    def __init__(self, *hits: Hit) -> None:
        self.asked: list[ObjectKey] = []
        self.log: list[str] = []
        self.reread: list[int] = []
        self.written: list[DesiredCopy] = []
        self.made_from: object = None
        self.has_drifted = True
        self.refusal: Reason | None = None
        self.is_connected = self.is_there = True
        self.rules = dict.fromkeys([hit.rule for hit in hits] or ["rule"], RULE)
        self.definitions: dict[tuple[str, str], str] = {}
        self.at_peer = body(7)
        self.bodies = BodyCache()
        self.gone_copies = GoneCopies()
        self.record: Any = SimpleNamespace(
            uid="uid", revision=7, marks=NATIVE, hits=hits or (hit("rule"),), membership=False, rereads=0
        )
        self.is_outdated = False
        self.cache: Any = SimpleNamespace(
            peer=OWNER,
            kind=KIND,
            records={KEY: self.record},
            reread=self._reread,
            is_outdated=lambda record, hit: self.is_outdated,
            is_current=lambda key, record, hit: self.cache.records.get(key) is record and not self.is_outdated,
        )
        self.copy: Any = SimpleNamespace(
            shows_rule=True,
            made_from=None,
            outranked_rules=("loser before",),
            lost=(),
            status_lost=(),
            remainder=NOTHING_REMAINS,
        )
        self.local: Any = SimpleNamespace(records={KEY: self.copy}, record_write=self._record_write, doubts=0)
        copies: Any = SimpleNamespace(find=lambda target: (self.local, self.copy if self.local else None))
        updater: Any = self
        relays: Any = self
        sources = SourceReader(bodies=self.bodies, connection=self.connection, evaluations=EvaluationLimiter())
        self.applier = Applier(
            copies=copies,
            sources=sources,
            updater=updater,
            gone_copies=self.gone_copies,
            relays=relays,
            rules=self.rules,
            acting=self.rules,
            definitions=self.definitions,
        )

    @property
    def claim(self) -> Claim:
        return Claim(OWNER, OWNER, Voice.OWNER, KIND, KEY, "uid", "2026-01-01", 7, self.record.hits[0].rule)

    async def apply(self, decision: Decision, **more: Any) -> Result:
        members = frozenset((OWNER,))
        state = TargetState(TARGET, (self.claim,), None, LOCAL, members, members)._replace(**more)
        offer = Offer(self.cache, KEY, self.record, self.record.hits[0])
        return await self.applier.apply(Judgment(state, (offer,), decision))

    def _reread(self, obj: Any) -> None:
        self.reread.append(obj.revision)

    # The peer.

    def connection(self, peer: ClusterUID) -> Any:
        return SimpleNamespace(reader=self, discovery=self) if self.is_connected else None

    async def resolve(self, kind: GVK) -> GVR:
        return GVR("", "v1", "configmaps", True)

    async def get(self, gvr: GVR, key: ObjectKey, *, timeout_s: float) -> bytes:
        self.asked.append(key)
        if not self.is_there:
            raise NotFound(f"get {gvr} {key}: not found", names_object=True)
        return self.at_peer

    # What writes here, and what says whom another member may speak of.

    def _record_write(self, key: ObjectKey, result: Rendered) -> None:
        assert key == KEY
        self.copy.made_from, self.copy.outranked_rules = result.made_from, result.outranked_rules

    def is_in_step(self, target: Target, made_from: object) -> bool:
        return made_from == self.made_from

    def digest(self, manifest: Manifest) -> bytes:
        return b"digest"

    async def update(self, state: TargetState, wanted: DesiredCopy, cache: Any, record: Any, *, reason: Reason) -> bool:
        self.written.append(wanted)
        return self.has_drifted

    async def delete(self, state: TargetState, decision: Delete) -> None:
        self.log.append("deleted")

    def note_idle(self, state: TargetState, *, is_held: bool) -> None:
        self.log.append("held" if is_held else "idle")

    def refusal_of(self, claim: Claim, manifest: Manifest, *, over: object, is_relayed: bool) -> Reason | None:
        return self.refusal


def slot() -> BodyKey:
    return BodyKey(OWNER, KIND, KEY)


async def test_a_copy_is_made_of_what_a_stream_brought_and_says_where_it_is_from() -> None:
    """O3, R6: nothing is read again, and the body is not kept."""
    bench = Bench()
    bench.bodies.put(slot(), decode_object(body(7)))
    decision = Apply(bench.claim, Reason.CREATE)
    assert await bench.apply(decision) == Result(decision)
    (wanted,) = bench.written
    assert wanted.manifest["data"]["n"] == "1"
    provenance = wanted.marks.provenance
    assert provenance is not None
    assert (provenance.owner, provenance.rule, provenance.revision) == (OWNER, "rule", 7)
    assert meta.PROVENANCE in wanted.manifest["metadata"]["annotations"]
    assert not bench.asked
    assert bench.bodies.peek(slot()) is None
    assert bench.copy.made_from == MadeFrom(bench.claim, bench.record.hits, ())


async def test_a_copy_is_not_written_between_a_list_of_its_kind_and_that_of_the_rules() -> None:
    """W3: after the restore of an etcd it would name a rule that the store never had. Membership does not wait."""
    bench = Bench()
    bench.bodies.put(slot(), decode_object(body(7)))
    bench.local.doubts = 1
    decision = Apply(bench.claim, Reason.UPDATE)
    assert await bench.apply(decision) == Result(Hold(Reason.LOCAL_NOT_HEARD, OWNER))
    assert not bench.written
    bench.local.doubts = 0
    assert await bench.apply(decision) == Result(decision)


async def test_a_rule_that_is_not_here_any_more_names_no_age_of_itself() -> None:
    """W3: after the restore of an etcd it acts for a while, and its age would show that this store had it."""
    bench = Bench(hit("rule")._replace(rule_uid="rule-uid"))
    bench.bodies.put(slot(), decode_object(body(7)))
    for rules, created in (({"rule": RULE}, "rule"), (dict[str, Any](), "")):
        bench.rules.clear()
        bench.rules.update(rules)
        await bench.apply(Apply(bench.claim, Reason.CREATE))
        provenance = bench.written.pop().marks.provenance
        assert provenance is not None
        assert (provenance.rule_uid, provenance.rule_created) == ("rule-uid", created)


async def test_a_copy_names_the_definition_with_which_its_rule_was_here() -> None:
    """W3: it shows later that the rule was deleted. Nothing else changes for it, and it is kept while none is known."""
    bench = Bench(hit("rule")._replace(rule_uid="rule-uid"))
    bench.bodies.put(slot(), decode_object(body(7)))

    async def write(**more: Any) -> Provenance:
        bench.made_from = None
        await bench.apply(Apply(bench.claim, Reason.UPDATE), **more)
        provenance = bench.written.pop().marks.provenance
        assert provenance is not None
        return provenance

    unknown = await write()
    assert unknown.rule_definition == ""
    bench.definitions["rule", "rule-uid"] = "crd"
    known = await write()
    assert known.rule_definition == "crd"
    assert known.same_origin(unknown)
    bench.definitions.clear()
    bench.rules.clear()
    here = HERE._replace(marks=replace(HERE.marks, provenance=known))
    assert (await write(current=here)).rule_definition == "crd"
    bench.copy.shows_rule = False  # somebody else brought it back
    assert (await write(current=here)).rule_definition == ""
    bench.copy.shows_rule = True
    other = here._replace(marks=replace(HERE.marks, provenance=msgspec.structs.replace(known, rule_uid="another")))
    assert (await write(current=other)).rule_definition == ""


async def test_a_copy_names_no_definition_of_another_cluster() -> None:
    bench = Bench(hit("rule")._replace(rule_uid="rule-uid", rule_owner=OWNER))
    bench.definitions["rule", "rule-uid"] = "crd"
    bench.bodies.put(slot(), decode_object(body(7)))
    await bench.apply(Apply(bench.claim, Reason.CREATE))
    provenance = bench.written.pop().marks.provenance
    assert provenance is not None
    assert provenance.rule_definition == ""


async def test_a_body_that_gave_way_is_read_again_by_name() -> None:
    bench = Bench()
    decision = Apply(bench.claim, Reason.UPDATE)
    assert await bench.apply(decision) == Result(decision)
    assert bench.asked == [KEY]
    bench.is_connected = False
    with pytest.raises(ApiError, match="not connected"):
        await bench.apply(decision)


async def test_the_owner_is_asked_before_a_copy_is_made_where_one_went() -> None:
    """A7: a watch may bring the source as it was before its end. One answer is enough."""
    bench = Bench()
    bench.gone_copies.record(TARGET)
    decision = Apply(bench.claim, Reason.CREATE)
    bench.bodies.put(slot(), decode_object(body(7)))
    bench.is_there = False
    assert await bench.apply(decision) == Result(Hold(Reason.STALE_SOURCE, OWNER))
    bench.is_there, bench.at_peer = True, body(6)
    assert await bench.apply(decision) == Result(Hold(Reason.STALE_SOURCE, OWNER))
    assert TARGET in bench.gone_copies
    bench.at_peer = body(8)
    assert await bench.apply(decision) == Result(Hold(Reason.OWNER_NOT_HEARD, OWNER))
    assert len(bench.asked) == 3
    assert await bench.apply(decision) == Result(decision)
    assert len(bench.asked) == 3


async def test_a_copy_that_is_here_is_written_though_one_went_before() -> None:
    bench = Bench()
    bench.gone_copies.record(TARGET)
    bench.bodies.put(slot(), decode_object(body(7)))
    decision = Apply(bench.claim, Reason.UPDATE)
    assert await bench.apply(decision, current=HERE) == Result(decision)
    assert not bench.asked


async def test_what_is_in_step_costs_no_body_and_no_write() -> None:
    """A1."""
    bench = Bench()
    bench.made_from = MadeFrom(bench.claim, bench.record.hits, ())
    assert await bench.apply(Apply(bench.claim, Reason.UPDATE), current=HERE) == Result(
        Skip(Reason.IN_SYNC, OWNER), ("loser before",)
    )
    assert not bench.asked
    assert not bench.written


async def test_a_copy_that_was_compared_and_is_the_same_is_in_step() -> None:
    bench = Bench()
    bench.has_drifted = False
    assert (await bench.apply(Apply(bench.claim, Reason.UPDATE))).decision == Skip(Reason.IN_SYNC, OWNER)


@pytest.mark.parametrize(("found", "reason"), [(8, Reason.OWNER_NOT_HEARD), (6, Reason.STALE_SOURCE)])
async def test_another_state_than_the_one_that_was_judged_is_not_written(found: int, reason: Reason) -> None:
    """O3: a newer one is judged first, an older one is no news."""
    bench = Bench()
    bench.at_peer = body(found)
    assert await bench.apply(Apply(bench.claim, Reason.UPDATE)) == Result(Hold(reason, OWNER))
    assert bench.reread == [found]
    assert not bench.written


async def test_a_source_that_changes_while_its_body_waits_is_judged_again() -> None:
    """Large objects wait for each other."""
    bench = Bench()
    bench.at_peer = body(7, size=300 * 1024)
    offer = Offer(bench.cache, KEY, bench.record, bench.record.hits[0])
    bench.cache.records = {KEY: SimpleNamespace(uid="uid", revision=8)}
    state = TargetState(TARGET, (bench.claim,), None, LOCAL, frozenset(), frozenset())
    judgment = Judgment(state, (offer,), Apply(bench.claim, Reason.UPDATE))
    assert await bench.applier.apply(judgment) == Result(Hold(Reason.OWNER_NOT_HEARD, OWNER))
    assert not bench.written


async def test_the_younger_rules_that_want_it_otherwise_are_named() -> None:
    """W2."""
    bench = Bench(hit("a"), hit("b"), hit("c", added="c"))
    assert (await bench.apply(Apply(bench.claim, Reason.CREATE))).losers == ("c",)
    assert bench.copy.outranked_rules == ("c",)


async def test_what_another_member_may_not_bring_is_not_written() -> None:
    """O4."""
    bench = Bench()
    bench.refusal = Reason.ADDRESS_CHANGED
    decision = Apply(bench.claim, Reason.RELAYED)
    assert await bench.apply(decision, membership=MembershipState()) == Result(Skip(Reason.ADDRESS_CHANGED, OWNER))
    assert await bench.apply(decision) == Result(decision)
    assert len(bench.written) == 1


async def test_a_kind_that_is_not_watched_here_is_waited_for() -> None:
    """R2."""
    bench = Bench()
    bench.local = None
    assert await bench.apply(Apply(bench.claim, Reason.CREATE)) == Result(Hold(Reason.LOCAL_NOT_HEARD, OWNER))


async def test_other_decisions_write_nothing() -> None:
    """A5: a copy that is rightly absent is no repair when it is made again."""
    bench = Bench()
    delete = Delete("uid", 1, Reason.SOURCE_DELETED, OWNER)
    assert await bench.apply(delete) == Result(delete)
    skip = Skip(Reason.SYNC_DISABLED, OWNER)
    assert await bench.apply(skip) == Result(skip, ("loser before",))
    hold = Hold(Reason.OWNER_NOT_HEARD, OWNER)
    assert await bench.apply(hold) == Result(hold, ("loser before",))
    assert await bench.apply(hold, claims=()) == Result(hold, ("loser before",))
    assert bench.log == ["deleted", "idle", "held", "idle"]
    assert not bench.written


async def test_a_source_that_a_changed_rule_has_not_seen_yet_is_not_written() -> None:
    """W3: the rule's own list brings the source again, with what the rule makes of it now."""
    bench = Bench()
    bench.is_outdated = True
    assert await bench.apply(Apply(bench.claim, Reason.UPDATE)) == Result(Hold(Reason.OWNER_NOT_HEARD, OWNER))
    assert not bench.asked
    assert not bench.written
