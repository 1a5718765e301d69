"""A9: copies that act when they are made, and were deleted here."""

from __future__ import annotations

import pytest

from registry_controller.api.meta import GVK, ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance
from registry_controller.core.decision.decide import decide
from registry_controller.core.decision.decision import Apply, Decision, Reason, Skip
from registry_controller.core.decision.marks import NATIVE, Marks, Voice
from registry_controller.core.decision.state import Claim, TargetState
from registry_controller.sync.made_once import MadeOnce

OWNER, POD = ClusterUID("o"), Target("", "Pod", "apps", "one")


def marks(target: Target, uid: str) -> Marks:
    kind, key = GVK(target.group, "v1", target.kind), ObjectKey(target.namespace, target.name)
    made_of = Provenance(OWNER, "r", OWNER, "Orphan", kind, key, uid, "", 1, target)
    return Marks(OWNER, made_of, sync_disabled=False, go_written=False)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (POD, "u"),
        (Target("cert-manager.io", "CertificateRequest", "apps", "one"), "u"),
        (Target("", "ConfigMap", "apps", "one"), ""),
        (Target("batch", "Job", "apps", "one"), ""),
    ],
)
def test_the_sources_of_such_kinds_are_known_until_we_take_their_copies_away(target: Target, expected: str) -> None:
    made = MadeOnce()
    made.note(target, "copy", marks(target, "u"), is_going=False)
    made.note(Target("", "Pod", "apps", "native"), "mine", NATIVE, is_going=False)
    assert (made.source_of(target), made.source_of(target._replace(name="native"))) == (expected, "")
    made.record_deletion(target, "copy")
    assert made.source_of(target) == ""


def test_a_copy_that_we_deleted_may_be_made_again_however_often_it_is_read_while_it_goes() -> None:
    made = MadeOnce()
    made.record_creation(POD, marks(POD, "u"))
    for is_going in (False, True):
        made.note(POD, "copy", marks(POD, "u"), is_going=is_going)
        assert made.source_of(POD) == "u"
    made.record_deletion(POD, "copy")
    for is_going in (False, True):
        made.note(POD, "copy", marks(POD, "u"), is_going=is_going)
        assert made.source_of(POD) == ""
    made.note(POD, "next", marks(POD, "u"), is_going=False)
    made.record_deletion(POD, "copy")
    assert made.source_of(POD) == "u"


def test_a_deletion_that_was_refused_is_none() -> None:
    made = MadeOnce()
    made.note(POD, "copy", marks(POD, "u"), is_going=False)
    made.record_deletion(POD, "copy")
    made.withdraw_deletion(POD, "copy")
    assert made.source_of(POD) == "u"


def test_a_copy_that_went_already_when_the_daemon_started_may_be_made_again() -> None:
    """The daemon before may have deleted it. One that this daemon made, and somebody deleted, is known."""
    made = MadeOnce()
    made.note(POD, "copy", marks(POD, "u"), is_going=True)
    assert made.source_of(POD) == ""
    made.record_creation(POD, marks(POD, "u"))
    made.note(POD, "next", marks(POD, "u"), is_going=True)
    assert made.source_of(POD) == "u"


def decided(*, spent: str) -> Decision:
    claim = Claim(OWNER, OWNER, Voice.OWNER, GVK("", "v1", "Pod"), POD.key, "u", "2026-01-01", 1, "r")
    members = frozenset({OWNER})
    return decide(TargetState(POD, (claim,), None, ClusterUID("l"), members, members, spent=spent))


def test_a_copy_that_was_deleted_here_is_made_again_of_another_source_only() -> None:
    assert decided(spent="u") == Skip(Reason.DELETED_HERE, OWNER)
    assert isinstance(decided(spent=""), Apply)
    assert isinstance(decided(spent="older"), Apply)
