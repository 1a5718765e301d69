"""A8: an earlier state of a rule that is put here is not obeyed, unless the rule's owner shows it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from registry_controller.api import meta
from registry_controller.api.meta import ClusterUID, ObjectKey, Target
from registry_controller.api.provenance import Provenance, with_provenance
from registry_controller.cache.registry import Registry
from registry_controller.core.decision.stored_spec import NOT_AS_WRITTEN, digest_spec

RULES = meta.RULES.resource
HOME, OTHER, HERE = ClusterUID("home"), ClusterUID("other"), ClusterUID("here")
COPY = Target(meta.GROUP, meta.RULE.kind, "", "r")

pytestmark = pytest.mark.clause("A8")


def copied(written: int, *, state: int, owner: ClusterUID = HOME, uid: str = "u", **annotations: str) -> dict[str, Any]:
    """Build a copy of the owner's rule at a revision there, as an event at a revision here."""
    manifest: dict[str, Any] = {
        "apiVersion": meta.API_VERSION,
        "kind": meta.RULE.kind,
        "metadata": {"name": "r", "uid": "here", "resourceVersion": str(written)},
        "spec": {
            "groupVersionKind": {"version": "v1", "kind": "ConfigMap"},
            "rules": [{"match": [{"objectKey": {"name": f"n{state}"}}]}],
        },
    }
    manifest["metadata"]["annotations"] = {meta.OWNER: owner, **annotations}
    made = Provenance(
        owner, "core", HERE, "Orphan", meta.RULE, ObjectKey("", "r"), uid, "", state, COPY,
        cluster=HERE, spec=digest_spec(manifest),
    )  # fmt: skip
    return with_provenance(manifest, made)


class Stage:
    """A registry, and what the owner of the rule showed last."""

    def __init__(self) -> None:
        self.at_owner = ""
        self.changed: list[str] = []
        self.held = Registry(local=ClusterUID("local"), on_change=lambda plural, name: self.changed.append(name))
        self.held.rule_copies.spec_at_owner = lambda provenance: self.at_owner

    def apply(self, manifest: dict[str, Any]) -> None:
        self.held.apply(RULES, "MODIFIED", manifest)

    @property
    def acting(self) -> int:
        """The state that acts; 0 if the rule does nothing."""
        found = self.held.acting["r"]
        assert found.marks.provenance is not None
        return found.marks.provenance.revision if found.verdict.accepted else 0

    @property
    def is_obeyed(self) -> bool:
        return self.held.rules["r"].verdict.reason != NOT_AS_WRITTEN.reason


def test_what_acts_goes_on_while_an_earlier_state_is_here() -> None:
    stage = Stage()
    stage.apply(copied(1, state=10))
    stage.apply(copied(2, state=20))
    stage.apply(copied(3, state=10))
    assert (stage.is_obeyed, stage.acting) == (False, 20)
    stage.at_owner = digest_spec(copied(0, state=20))
    stage.held.compare_altered_rules()
    assert (stage.is_obeyed, stage.acting) == (False, 20)
    stage.apply(copied(4, state=20))
    assert (stage.is_obeyed, stage.acting) == (True, 20)


def test_an_earlier_state_counts_once_its_owner_shows_it() -> None:
    """Another replica heard of the restore first, and wrote the copy."""
    stage = Stage()
    stage.apply(copied(1, state=20))
    stage.apply(copied(2, state=10))
    assert stage.acting == 20
    stage.changed.clear()
    stage.at_owner = digest_spec(copied(0, state=10))
    stage.held.compare_altered_rules()
    assert (stage.is_obeyed, stage.acting, stage.changed) == (True, 10, ["r"])
    stage.at_owner = ""
    stage.apply(copied(3, state=10))
    assert stage.acting == 10


def test_an_earlier_state_is_not_obeyed_after_the_copy_was_deleted_here() -> None:
    stage = Stage()
    stage.apply(copied(1, state=20))
    stage.held.apply(RULES, "DELETED", copied(2, state=20))
    for written in (3, 4):
        stage.apply(copied(written, state=10, uid="earlier"))
        assert not stage.is_obeyed
        assert stage.acting in (0, 20)


@pytest.mark.parametrize(
    "put",
    [copied(2, state=10, owner=OTHER), copied(2, state=10, **{meta.SYNC_DISABLED: "true"})],
    ids=["the rule of another cluster", "this cluster's own word"],
)
def test_what_is_no_earlier_state_of_the_rule_is_obeyed(put: dict[str, Any]) -> None:
    stage = Stage()
    stage.apply(copied(1, state=20))
    stage.apply(put)
    assert (stage.is_obeyed, stage.acting) == (True, 10)


def test_a_copy_without_a_digest_is_obeyed_as_it_is() -> None:
    stage = Stage()
    stage.apply(copied(1, state=20))
    earlier = copied(2, state=10)
    provenance = stage.held.rules["r"].marks.provenance
    assert provenance is not None
    stage.apply(with_provenance(earlier, msgspec.structs.replace(provenance, revision=10, spec="")))
    assert (stage.is_obeyed, stage.acting) == (True, 10)
