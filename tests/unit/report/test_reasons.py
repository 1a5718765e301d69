"""The messages of the reasons of Decisions."""

from __future__ import annotations

import pytest

from registry_controller.api.errors import Forbidden, NotServed, NotWatchable
from registry_controller.api.meta import GVK, RULE, SECRET
from registry_controller.core.decision.decision import Reason
from registry_controller.report.reasons import MESSAGES, REFUSALS, explain_refusal, explain_unread

CONFIG_MAP = GVK("", "v1", "ConfigMap")
LOOKALIKE = GVK("example.com", "v1", "Secret")
PURPOSE = ", unless rbac.narrowSecrets is set {}: then it is lacking on purpose, and Secrets are reached in the "


def test_every_reason_has_words_and_no_two_the_same() -> None:
    assert set(MESSAGES) == set(Reason)
    assert len(set(MESSAGES.values())) == len(MESSAGES)


@pytest.mark.parametrize(("at_home", "label", "place"), [(True, "controller", "here"), (False, "reader", "there")])
@pytest.mark.parametrize(
    ("kind", "may_be_meant"), [(SECRET, True), (SECRET._replace(version=""), True), (CONFIG_MAP, False),
                               (LOOKALIKE, False), (RULE, False)],
)  # fmt: skip
@pytest.mark.clause("S3")
def test_a_right_that_is_missing_is_named_and_of_secrets_that_it_may_be_so_on_purpose(
    kind: GVK, may_be_meant: bool, at_home: bool, label: str, place: str
) -> None:
    said = explain_unread(kind, Forbidden("list them: 403 Forbidden"), is_local=at_home)
    granting = f'grant it with a ClusterRole labelled cluster-registry.k8s.cisco.com/{label}-aggregated: "true" {place}'
    assert said.startswith(f"cannot list them: 403 Forbidden; {granting}")
    assert (PURPOSE.format(place) in said) is may_be_meant


@pytest.mark.parametrize("reason", sorted(REFUSALS))
@pytest.mark.clause("S3")
def test_a_refusal_says_what_to_do(reason: str) -> None:
    said = explain_refusal(Forbidden(f"create it: 403 {reason}", reason=reason))
    assert said.startswith(f"create it: 403 {reason}; {REFUSALS[reason]}")
    assert ("controller-aggregated" in said) is (reason == "RightsEscalation")


@pytest.mark.clause("R2")
def test_a_kind_of_another_spelling_is_suggested() -> None:
    error = NotServed("it: does not serve it", similar="ConfigMap")
    assert explain_unread(GVK("", "v1", "ConfigMaps"), error, is_local=True) == (
        "it is not served here in the core group, version v1; correct the rule's groupVersionKind; "
        "did you mean `ConfigMap`?"
    )


@pytest.mark.clause("R2")
def test_a_kind_that_is_served_and_cannot_be_watched_is_not_said_to_be_missing() -> None:
    said = explain_unread(GVK("", "v1", "ComponentStatus"), NotWatchable("it: serves it"), is_local=False)
    assert said == "it is served there, and cannot be listed and watched, so no rule can copy it: name another kind"
