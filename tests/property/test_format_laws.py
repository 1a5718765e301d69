"""Laws of the formats that daemons write for each other: a later one is left alone, what it adds is kept. A11, O7."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from registry_controller import __version__
from registry_controller.api import deleted_rules, meta, provenance, tombstone
from registry_controller.api.deleted_rules import DeletedRule, read_deleted_rules, write_deleted_rules
from registry_controller.api.feature import read_feature
from registry_controller.api.formats import FORMATS, write_daemon_version
from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, decode, encode
from registry_controller.api.tombstone import (
    Tombstone,
    further_labels,
    has_later_format,
    is_own_tombstone,
    read_tombstone,
    read_withdrawal,
    tombstone_manifest,
    withdrawal_manifest,
)
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Hold, Reason
from registry_controller.core.decision.marks import Binding, Voice, read_marks, voice_of
from tests.property.test_decide_laws import views

OWNER, HERE = ClusterUID("owner"), ClusterUID("here")
COPY = Target("", "ConfigMap", "default", "x")
MADE = Provenance(
    OWNER,
    "rule",
    OWNER,
    "Delete",
    GVK("", "v1", "ConfigMap"),
    ObjectKey("default", "x"),
    "u",
    "2026-01-01T00:00:00Z",
    7,
    COPY,
    cluster=HERE,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
LATER = (
    st.integers(-(2**53), 0)
    | st.integers(2, 2**53)
    | st.sampled_from([None, True, False, 1.5, 2.0, "1", [1], {"major": 1}])
)
"""Every format that this version does not know counts as a later one, however it is written."""
KNOWN = (None, "1", "1.0")
MOST = 64 * 1024
ADDED = st.dictionaries(st.text("xyz", min_size=1, max_size=4), JSON, max_size=3)


def _with(**fields: Any) -> str:
    return orjson.dumps({**orjson.loads(encode(MADE)), **fields}).decode()


@given(ADDED)
def test_fields_of_a_later_version_are_kept_and_are_no_difference(added: dict[str, Any]) -> None:
    found = decode(_with(**added), of=COPY)
    assert found is not None
    assert found.same_origin(MADE)
    rewritten = replace(MADE, revision=8, unknown=found.unknown)
    assert orjson.loads(encode(rewritten)) == {**orjson.loads(encode(replace(MADE, revision=8))), **added}
    assert decode(encode(rewritten), of=COPY) == rewritten


@pytest.mark.parametrize("length", [0, 4096, MOST - 600, MOST - 400])
def test_a_provenance_that_the_daemon_writes_can_be_read_again(length: int) -> None:
    """However long the fields of a later version are: those that leave no room for its own are left out."""
    found = decode(_with(later="x" * length), of=COPY)
    assert found is not None
    longer = replace(MADE, left=tuple(f"{number:08x}" for number in range(64)), unknown=found.unknown)
    text = encode(longer)
    assert len(text) <= MOST
    assert decode(text, of=COPY) == (longer if length <= 4096 else replace(longer, unknown=()))


def test_a_provenance_is_read_up_to_its_limit_and_whatever_is_nested_in_it() -> None:
    longest = MOST - len(_with(later=""))
    assert decode(_with(later="x" * longest), of=COPY) is not None
    assert decode(_with(later="x" * (longest + 1)), of=COPY) is None
    assert decode(f'{encode(MADE)[:-1]},"later":{_nested(300)}}}', of=COPY) == MADE


@given(st.sampled_from(("", "r", "s")), st.sampled_from(("", "r", "s")), st.text(max_size=70) | JSON)
def test_a_definition_counts_for_the_rule_that_it_names(rule: str, named: str, definition: object) -> None:
    """An earlier version keeps the field where it writes that another rule made the copy. W3."""
    fields = {"ruleUID": rule} if rule else {}
    found = decode(_with(**fields, ruleDefinition={"uid": definition, "ruleUID": named}), of=COPY)
    assert found is not None
    is_text = isinstance(definition, str) and len(definition) <= meta.UID_LENGTH
    assert found.rule_definition == (definition if is_text and rule and rule == named else "")
    assert found.same_origin(replace(MADE, rule_uid=rule))
    assert decode(encode(found), of=COPY) == found
    broken = decode(_with(**fields, ruleDefinition=definition), of=COPY)
    assert broken is not None
    assert broken.rule_definition == ""


@given(st.sampled_from(("", "r", "s")), st.sampled_from(("", "r", "s")), st.integers(0, 10**9) | JSON)
def test_a_revision_counts_for_the_rule_that_it_names(rule: str, named: str, revision: object) -> None:
    """An earlier version keeps the field where it writes that another rule made the copy. A8."""
    fields = {"ruleUID": rule} if rule else {}
    text = str(revision) if isinstance(revision, int) else revision
    found = decode(_with(**fields, ruleRevision={"resourceVersion": text, "ruleUID": named}), of=COPY)
    assert found is not None
    assert found.rule_revision == (meta.revision(text) if rule and rule == named else 0)
    assert found.same_origin(replace(MADE, rule_uid=rule))
    assert decode(encode(found), of=COPY) == found
    broken = decode(_with(**fields, ruleRevision=text), of=COPY)
    assert broken is not None
    assert broken.rule_revision == 0


@given(LATER, ADDED, st.booleans(), st.sampled_from(["here", "owner", "third"]))
def test_a_mark_of_a_later_format_proves_nothing(
    number: object, added: dict[str, Any], has_owner: bool, peer: str
) -> None:
    """Whatever its other fields are, also where they seem to name another object."""
    text = orjson.dumps({**(orjson.loads(encode(MADE)) if has_owner else {}), **added, "format": number}).decode()
    marks = read_marks({meta.PROVENANCE: text} | ({meta.OWNER: OWNER} if has_owner else {}), of=COPY)
    assert marks.binding is Binding.UNREADABLE
    assert marks.provenance is None
    assert not marks.is_bound_in(HERE)
    offers = voice_of(marks, peer=ClusterUID(peer), local=HERE) is Voice.OWNER
    assert offers is (has_owner and peer == OWNER)


@given(st.sampled_from([1, 1.0]))
def test_the_format_of_this_version_changes_nothing(number: object) -> None:
    assert decode(_with(format=number), of=COPY) == MADE


@pytest.mark.clause("A11")
@given(views())
def test_a_copy_of_a_later_version_is_never_touched(state: Any) -> None:
    if state.current is None or state.membership is not None:
        return
    marks = dataclasses.replace(state.current.marks, provenance=None, binding=Binding.UNREADABLE)
    decision = decide(state._replace(current=state.current._replace(marks=marks)))
    assert isinstance(decision, Hold) or decision.reason in (Reason.NOT_ALLOWED, Reason.CLOSED, Reason.RESERVED)


@given(
    st.text("ab-", min_size=1, max_size=5).filter(lambda text: text[0] != "-" and text[-1] != "-"),
    st.sampled_from([None, "1", "1.0", "2", "0", "", "v1", "true", "01"]),
)
def test_a_tombstone_of_a_later_format_counts_for_nothing(member: str, number: str | None) -> None:
    stone, is_later = (
        Tombstone(ClusterUID(member), "u", ClusterUID(member), datetime.date(2027, 1, 1)),
        number not in KNOWN,
    )
    labels = {meta.LEFT_FORMAT: number} if number is not None else {}
    manifest, back = tombstone_manifest(stone, further=labels), withdrawal_manifest(stone)
    back["metadata"]["labels"] |= labels
    assert read_tombstone(read_feature(manifest)) == (None if is_later else stone)
    assert is_own_tombstone(manifest, of=ClusterUID(member)) is not is_later
    assert read_withdrawal(read_feature(back)) == (None if is_later else stone)
    assert [has_later_format(read_feature(found)) for found in (manifest, back)] == [is_later, is_later]


ANY = st.text(st.characters(codec="ascii"), max_size=5)


@given(st.dictionaries(st.sampled_from((meta.LEFT, "left-", "", "x/")).flatmap(lambda at: ANY.map(at.__add__)), ANY))
def test_labels_of_a_later_version_stay_on_a_tombstone_that_is_stored_again(added: dict[str, str]) -> None:
    """Only such as belong to tombstones, and as an API server takes; none of them changes the tombstone."""
    stone = Tombstone(OWNER, "u", OWNER, datetime.date(2027, 1, 1), 7)
    labels = {**added, **meta.labels_of(tombstone_manifest(stone))}
    further = further_labels(labels)
    assert further.items() <= added.items()
    assert all(label.startswith(meta.LEFT) for label in further)
    stored = tombstone_manifest(stone, further=further)
    assert meta.labels_of(stored) == {**further, **meta.labels_of(tombstone_manifest(stone))}
    assert read_tombstone(read_feature(stored)) == stone
    assert further_labels(meta.labels_of(stored)) == further


DELETED = st.lists(st.sampled_from("abcd"), unique=True).map(
    lambda found: {DeletedRule(name, f"uid-{name}", datetime.date(2026, 1, 1)) for name in found}
)


@given(DELETED, DELETED, ADDED, ADDED)
def test_fields_of_a_later_version_stay_in_the_record_and_go_with_their_entries(
    held: set[DeletedRule], wanted: set[DeletedRule], of_entry: dict[str, Any], of_record: dict[str, Any]
) -> None:
    plain = orjson.loads(write_deleted_rules(held))
    before = {**of_record, **plain, "rules": [{**of_entry, **entry} for entry in plain["rules"]]}
    text = write_deleted_rules(wanted, before={meta.DELETED_RULES: orjson.dumps(before).decode()})
    assert read_deleted_rules({meta.DELETED_RULES: text}) == wanted
    found = orjson.loads(text)
    kept = {rule.uid: of_entry if rule in held else {} for rule in wanted}
    entries = [{**kept[entry["uid"]], **entry} for entry in orjson.loads(write_deleted_rules(wanted))["rules"]]
    assert found == {**of_record, "format": 1, "rules": entries}
    assert write_deleted_rules(wanted, before={meta.DELETED_RULES: text}) == text


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("added", [_nested(300), _nested(3000), f'"{"x" * 127 * 1024}"', "{"], ids=len)
def test_a_record_that_cannot_be_kept_whole_is_kept_without_further_fields(added: str) -> None:
    rules = [DeletedRule(f"r{number}", f"uid-{number}", datetime.date(2026, 1, 1)) for number in range(100)]
    before = {meta.DELETED_RULES: f'{{"format":1,"rules":[],"added":{added}}}'}
    text = write_deleted_rules(rules, before=before)
    assert text == write_deleted_rules(rules)
    assert read_deleted_rules({meta.DELETED_RULES: text}) == {*rules}


def test_a_record_is_read_however_long_the_fields_of_a_later_version_are() -> None:
    rule = DeletedRule("r", "u", datetime.date(2026, 1, 1))
    longer = orjson.dumps({**orjson.loads(write_deleted_rules([rule])), "added": "x" * 200 * 1024}).decode()
    assert read_deleted_rules({meta.DELETED_RULES: longer}) == {rule}


@given(ADDED, LATER, st.sampled_from(["{}", "", "[1]", "{", '{"version":"0","formats":3}']))
def test_what_a_later_version_says_of_its_daemon_stays(added: dict[str, Any], number: object, before: str) -> None:
    assert write_daemon_version("1", before=before) == write_daemon_version("1")
    text = write_daemon_version("1", before=orjson.dumps({**added, "version": "2"}).decode())
    assert orjson.loads(text) == {**added, **orjson.loads(write_daemon_version("1"))}
    assert write_daemon_version("1", before=text) == text
    later = orjson.dumps({**added, "format": number}).decode()
    assert write_daemon_version("1", before=later) == later


@given(LATER)
def test_a_record_of_a_later_format_counts_for_nothing(number: object) -> None:
    rule = DeletedRule("r", "u", datetime.date(2026, 1, 1))
    text = write_deleted_rules([rule])
    assert read_deleted_rules({meta.DELETED_RULES: text}) == {rule}
    later = orjson.dumps({**orjson.loads(text), "format": number}).decode()
    assert read_deleted_rules({meta.DELETED_RULES: later}) == frozenset()
    assert deleted_rules.has_later_format({meta.DELETED_RULES: later})


def test_a_cluster_names_the_version_of_its_daemon_and_its_formats() -> None:
    assert orjson.loads(write_daemon_version(__version__)) == {"version": __version__, "formats": FORMATS}
    formats = {"provenance": provenance.FORMAT, "deletedRules": deleted_rules.FORMAT}
    assert formats | {"tombstone": tombstone.FORMAT, "withdrawal": tombstone.FORMAT} == FORMATS
