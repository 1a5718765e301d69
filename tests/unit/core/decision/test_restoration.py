"""Whether a member that lacks its Cluster or Secret here may get it back (A1)."""

from __future__ import annotations

import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, ObjectKey
from registry_controller.core.decision.decision import Apply, Decision, Hold, Reason, Skip
from registry_controller.core.decision.marks import Voice
from registry_controller.core.decision.restoration import Restoration, find_restoration
from registry_controller.core.decision.state import Claim

B, RELAY = ClusterUID("b"), ClusterUID("relay")
CLAIM = Claim(B, B, Voice.OWNER, meta.CLUSTER, ObjectKey("", "b"), "uid", "2026-01-01", 7, "rule")
OWN = Apply(CLAIM, Reason.CREATE)


@pytest.mark.parametrize(
    ("decision", "found"),
    [
        (OWN, Restoration.POSSIBLE),
        (Apply(CLAIM._replace(peer=RELAY), Reason.RELAYED), Restoration.NONE),
        (Skip(Reason.NOT_WANTED), Restoration.POSSIBLE),
        (Hold(Reason.MISSING_AT_OWNER, B), Restoration.POSSIBLE),
        (Hold(Reason.OWNER_DECIDES, B), Restoration.POSSIBLE),
        (Skip(Reason.SYNC_DISABLED, B), Restoration.NONE),
        (Skip(Reason.COPY_FROZEN, B), Restoration.NONE),
        (Skip(Reason.DISPUTED), Restoration.NONE),
        (Skip(Reason.OWNER_LEFT, B), Restoration.NONE),
    ],
)
def test_a1_what_the_member_offers_or_may_offer_again_is_restored(decision: Decision, found: Restoration) -> None:
    assert find_restoration(decision, B, has_left=False, had_own=True, lacks_own=False) is found
    assert find_restoration(decision, B, has_left=True, had_own=True, lacks_own=True) is Restoration.NONE


def test_a1_the_restoration_is_awaited_while_the_member_lacks_its_own_cluster() -> None:
    missing = Skip(Reason.NOT_WANTED)
    assert find_restoration(missing, B, has_left=False, had_own=True, lacks_own=True) is Restoration.AWAITED
    assert find_restoration(OWN, B, has_left=False, had_own=True, lacks_own=True) is Restoration.POSSIBLE


@pytest.mark.parametrize("lacks_own", [False, True])
@pytest.mark.parametrize("reason", [Reason.NOT_WANTED, Reason.MISSING_AT_OWNER, Reason.OWNER_DECIDES])
def test_a1_a_member_that_never_showed_its_own_cluster_offers_it_not_again(reason: Reason, lacks_own: bool) -> None:
    missing = Skip(reason, B)
    assert find_restoration(missing, B, has_left=False, had_own=False, lacks_own=lacks_own) is Restoration.NONE
    assert find_restoration(OWN, B, has_left=False, had_own=False, lacks_own=lacks_own) is Restoration.POSSIBLE
