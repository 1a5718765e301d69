"""Laws of what is obeyed of a rule that is stored here, over all specs and edits of them. A8, W5."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.provenance import Provenance, decode, encode
from registry_controller.core.decision.marks import Binding, Marks
from registry_controller.core.decision.stored_spec import (
    LATER_FORMAT,
    digest_spec,
    find_refusal,
    goes_on,
    is_as_written,
    is_earlier,
)

HOME, HERE = ClusterUID("home"), ClusterUID("here")
COPY = Target(meta.GROUP, meta.RULE.kind, "", "r")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)
SPECS = st.dictionaries(st.sampled_from(("rules", "suspend", "targetClusters", "deletionPolicy")), JSON, max_size=4)


def manifest(spec: dict[str, Any]) -> Manifest:
    return {"metadata": {"name": "r"}, "spec": spec}


def written(spec: dict[str, Any], *, revision: int = 1) -> Provenance:
    """Build the provenance of the copy of a rule with that spec."""
    return Provenance(
        HOME, "core", HERE, "Orphan", meta.RULE, ObjectKey("", "r"), "uid", "", revision, COPY,
        cluster=HERE, spec=digest_spec(manifest(spec)),
    )  # fmt: skip


def marks(provenance: Provenance | None, *, frozen: bool = False) -> Marks:
    owner = provenance.owner if provenance is not None else None
    return Marks(owner, provenance, sync_disabled=frozen, go_written=False)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(SPECS, SPECS)
def test_a_copy_is_obeyed_only_with_the_spec_that_its_owner_wrote(
    owners: dict[str, Any], stored: dict[str, Any]
) -> None:
    """A null counts as no value; a boolean is no number."""
    is_same = repr(_sorted(without_nulls(owners))) == repr(_sorted(without_nulls(stored)))
    assert (find_refusal(manifest(stored), marks(written(owners))) is None) is is_same
    assert is_as_written(manifest(stored), marks(written(owners))) is is_same


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@given(SPECS, SPECS)
def test_native_and_frozen_rules_and_copies_without_a_digest_are_obeyed_as_they_are(
    owners: dict[str, Any], stored: dict[str, Any]
) -> None:
    earlier = replace(written(owners), spec="")
    for found in (marks(None), marks(earlier), marks(written(owners), frozen=True)):
        assert find_refusal(manifest(stored), found) is None


@pytest.mark.clause("A8", "A11")
@given(SPECS, SPECS, st.sampled_from((None, HOME)), st.booleans())
def test_a_rule_with_marks_of_a_later_format_is_not_obeyed(
    acted: dict[str, Any], stored: dict[str, Any], owner: ClusterUID | None, frozen: bool
) -> None:
    later = Marks(owner, None, sync_disabled=frozen, go_written=False, binding=Binding.UNREADABLE)
    assert find_refusal(manifest(stored), later) is LATER_FORMAT
    assert not goes_on(manifest(acted), marks(written(acted)), marks=later)


@given(SPECS, SPECS, SPECS, st.booleans())
def test_what_acted_goes_on_only_while_its_owner_says_the_same(
    acted: dict[str, Any], owners: dict[str, Any], stored: dict[str, Any], frozen: bool
) -> None:
    """And only if it was as its owner wrote it, whether or not somebody froze it."""
    before = marks(written(acted), frozen=frozen)
    is_same = digest_spec(manifest(acted)) == digest_spec(manifest(owners))
    assert goes_on(manifest(acted), before, marks=marks(written(owners, revision=2))) is is_same
    if digest_spec(manifest(stored)) != digest_spec(manifest(acted)):
        assert not goes_on(manifest(stored), before, marks=marks(written(acted)))
    other = replace(written(acted), uid="another")
    assert not goes_on(manifest(acted), before, marks=marks(other))
    assert not goes_on(manifest(acted), marks(None), marks=marks(written(acted)))


@given(SPECS, SPECS, st.integers(0, 3), st.integers(0, 3))
def test_an_earlier_state_is_one_of_a_lower_revision_that_its_owner_does_not_show(
    stored: dict[str, Any], owners: dict[str, Any], revision: int, than: int
) -> None:
    rule, at_owner = written(stored, revision=revision), digest_spec(manifest(owners))
    assert not is_earlier(replace(rule, spec=""), than=than, at_owner=at_owner)
    assert not is_earlier(rule, than=than, at_owner=rule.spec)
    assert is_earlier(rule, than=than, at_owner="") is (0 < revision < than)
    assert is_earlier(rule, than=than, at_owner=at_owner) is (0 < revision < than and rule.spec != at_owner)


@given(SPECS, SPECS)
def test_what_acted_goes_on_while_an_earlier_state_is_here(acted: dict[str, Any], earlier: dict[str, Any]) -> None:
    before = marks(written(acted, revision=2))
    assert goes_on(manifest(acted), before, marks=marks(written(earlier)))
    other = replace(written(earlier), owner=HERE)
    assert not goes_on(manifest(acted), before, marks=marks(other))


@given(SPECS, st.integers(1, 10**9))
def test_the_digest_travels_with_the_revision_that_it_is_of(spec: dict[str, Any], revision: int) -> None:
    """A daemon of another version may write the rest of the provenance, and leave the digest as it was."""
    provenance = written(spec, revision=revision)
    text = encode(provenance)
    assert decode(text, of=COPY) == provenance
    source = f'"resourceVersion":"{revision}","uid"'
    assert source in text
    rewritten = decode(text.replace(source, f'"resourceVersion":"{revision + 1}","uid"'), of=COPY)
    assert rewritten is not None
    assert rewritten.spec == ""


@given(SPECS, SPECS)
def test_a_missing_digest_is_no_reason_for_a_write_and_another_one_is(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    mine, its = written(one), written(other, revision=7)
    assert mine.same_origin(replace(its, spec=""))
    assert mine.same_origin(its) is (mine.spec == its.spec)


def test_the_digest_is_that_of_earlier_releases() -> None:
    """It is compared by daemons of other versions."""
    spec = {"groupVersionKind": {"version": "v1", "kind": "Secret"}, "rules": [{"match": [{"objectKey": None}]}]}
    assert digest_spec(manifest(spec)) == "d8ab63b9bdc9cd1e42ae575b8a93d7a5"
