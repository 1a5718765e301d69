"""What this version stores for other daemons is as in the files of its format, and the next format is not read. A11.

A test that fails here shows another format: write the next number, or add a field within the format.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from registry_controller.api import deleted_rules, formats, meta, provenance, tombstone
from registry_controller.api.deleted_rules import DeletedRule, deleted_rules_manifest, read_deleted_rules
from registry_controller.api.feature import read_feature
from registry_controller.api.formats import FORMATS, is_later_feature, write_daemon_version
from registry_controller.api.meta import GVK, ClusterUID, Manifest, ObjectKey, Target
from registry_controller.api.provenance import Provenance, decode, encode
from registry_controller.api.tombstone import (
    Tombstone,
    read_original_tombstone,
    read_tombstone,
    read_withdrawal,
    tombstone_manifest,
    withdrawal_manifest,
)

STORED = Path(__file__).parents[2] / "fixtures" / "formats"
OWNER, HERE = ClusterUID("0000000b-0000-4000-8000-000000000000"), ClusterUID("0000000a-0000-4000-8000-000000000000")
COPY = Target("apps", "Deployment", "shop", "web")
PROVENANCE = Provenance(
    OWNER,
    "deployments",
    HERE,
    "Delete",
    GVK("apps", "v1", "Deployment"),
    ObjectKey("shop", "web"),
    "11111111-0000-4000-8000-000000000000",
    "2026-01-31T12:00:00Z",
    4711,
    COPY,
    inherited=True,
    adopted=True,
    overrides="0123456789ab",
    rule_uid="22222222-0000-4000-8000-000000000000",
    rule_created="2026-01-30T12:00:00Z",
    rule_definition="33333333-0000-4000-8000-000000000000",
    left=("ba9876543210",),
    cluster=HERE,
    spec="cdef01234567",
)
STONE = Tombstone(OWNER, "44444444-0000-4000-8000-000000000000", OWNER, date(2026, 4, 30), 4712)
RULE = DeletedRule("deployments", "22222222-0000-4000-8000-000000000000", date(2026, 1, 31))


def stored(name: str, *, number: int = 1) -> Any:
    return yaml.safe_load((STORED / str(number) / f"{name}.yaml").read_text(encoding="utf-8"))


def copied() -> Manifest:
    info = {"name": COPY.name, "namespace": COPY.namespace}
    annotations = {meta.OWNER: OWNER, meta.PROVENANCE: encode(PROVENANCE)}
    return {"apiVersion": "apps/v1", "kind": COPY.kind, "metadata": {**info, "annotations": annotations}}


def cluster() -> Manifest:
    info = {"name": "berlin", "annotations": {meta.DAEMON: write_daemon_version("0.1.0")}}
    return {"apiVersion": meta.API_VERSION, "kind": "Cluster", "metadata": info, "spec": {"clusterID": OWNER}}


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("copy", copied()),
        ("tombstone", tombstone_manifest(STONE, secret="registry/berlin", ordered=True)),
        ("withdrawal", withdrawal_manifest(STONE)),
        ("deleted_rules", deleted_rules_manifest([RULE])),
        ("cluster", cluster()),
    ],
)
def test_what_this_version_writes_is_in_the_files(name: str, made: Manifest) -> None:
    assert stored(name) == made


def test_this_version_reads_its_files() -> None:
    assert decode(meta.annotations_of(stored("copy"))[meta.PROVENANCE], of=COPY) == PROVENANCE
    assert read_original_tombstone(stored("tombstone"), at=HERE) == STONE
    assert read_withdrawal(read_feature(stored("withdrawal"))) == STONE
    assert read_deleted_rules(meta.annotations_of(stored("deleted_rules"))) == {RULE}
    for name in ("tombstone", "withdrawal", "deleted_rules"):
        assert not is_later_feature(read_feature(stored(name)), meta.annotations_of(stored(name)))


def test_the_files_are_of_this_format() -> None:
    assert set(FORMATS.values()) == {1}
    assert {provenance.FORMAT, tombstone.FORMAT, deleted_rules.FORMAT} == {1}


def test_the_next_format_is_told_and_is_not_read() -> None:
    text = meta.annotations_of(stored("copy", number=2))[meta.PROVENANCE]
    assert decode(text, of=COPY) is None
    assert provenance.has_later_format(text)
    for name in ("tombstone", "withdrawal", "deleted_rules"):
        manifest = stored(name, number=2)
        feature, annotations = read_feature(manifest), meta.annotations_of(manifest)
        assert is_later_feature(feature, annotations)
        assert (read_tombstone(feature), read_withdrawal(feature)) == (None, None)
        assert read_deleted_rules(annotations) == frozenset()
    annotation = meta.annotations_of(stored("cluster", number=2))[meta.DAEMON]
    assert formats.is_later_version(annotation)
    assert write_daemon_version("0.1.0", before=annotation) == annotation


@pytest.mark.parametrize(("owner", "is_original"), [(HERE, True), (OWNER, False)])
def test_a_tombstone_with_the_mark_of_its_own_cluster_is_an_original(owner: ClusterUID, is_original: bool) -> None:
    """O11: somebody applied the copy of another member over it."""
    found = stored("tombstone")
    marked = {**found, "metadata": {**found["metadata"], "annotations": {meta.OWNER: owner}}}
    assert (read_original_tombstone(marked, at=HERE) == STONE) is is_original
