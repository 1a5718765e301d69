"""Objects that name the clusters that copy them, on three real clusters: the example, and older definitions. W9, A8."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.controlplane import Group
from hack.controlplane.build import ensure_binaries
from tests.docs.documents import blocks
from tests.e2e.commands import merge_kubeconfigs, run
from tests.e2e.group import (
    BIN,
    CONFIG_MAP,
    CRDS,
    ROOT,
    Member,
    config_map,
    eventually,
    grant,
    holding_invariants,
    in_sync,
    rule,
    steadily,
    swap,
)

EXAMPLE = ROOT / "examples" / "destination"
ORIGINAL = ROOT / "tests" / "fixtures" / "original" / "crds" / "resourcesyncrules.yaml"
OURS = CRDS / "clusterregistry.k8s.cisco.com_resourcesyncrules.yaml"
TARGETS = "cluster-registry.k8s.cisco.com/target-clusters"
DISABLED = "cluster-registry.k8s.cisco.com/resource-sync-disabled"

pytestmark = pytest.mark.clause("W9")


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with Group(3, prefix="destination") as group, holding_invariants() as found:
        found += [Member(cluster, name=name).install() for cluster, name in zip(group, "abc", strict=True)]
        first, *others = found
        for member in found:
            member.daemon.wait_ready(timeout_s=180)
        for other in others:
            swap(first, other)
        in_sync(found)
        yield found


class Reader:
    """Runs the commands of the example's README, block by block, as a person does."""

    def __init__(self, kubeconfig: Path) -> None:
        folders = [BIN, ensure_binaries(["kubectl"])["kubectl"].parent]
        path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path, "NO_COLOR": "1"}
        self._blocks = [block.text for block in blocks(EXAMPLE / "README.md") if block.language == "sh"]
        self.shown = [block.text for block in blocks(EXAMPLE / "README.md") if block.language == "text"]

    def run_next(self) -> str:
        """Run the next block, and return what it prints."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._blocks.pop(0)],
            cwd=EXAMPLE, env=self._env, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def is_done(self) -> bool:
        return not self._blocks


def test_the_commands_of_the_example_do_what_its_readme_says(
    members: list[Member], tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, b, c = members
    reader = Reader(merge_kubeconfigs(members, at=tmp_path_factory.mktemp("destination") / "config"))

    def uid(member: Member) -> str:
        found = member.find("-n", "default", "configmap", "settings")
        return found["metadata"]["uid"] if found is not None else ""

    reader.run_next()
    copy = b.get("-n", "default", "configmap", "settings")
    assert copy["data"] == {"greeting": "hello"}
    assert TARGETS not in copy["metadata"]["annotations"]
    eventually(lambda: c.find("rsr", "shared-settings"), what="the rule in c")
    steadily(lambda: not uid(c))
    explained = reader.run_next()
    assert explained.startswith(reader.shown[0]), explained
    reader.run_next()
    assert uid(c)
    assert (
        b.get("-n", "default", "configmap", "settings")["metadata"]["resourceVersion"]
        == (copy["metadata"]["resourceVersion"])
    )
    reader.run_next()
    assert uid(b) == copy["metadata"]["uid"]
    message = reader.run_next()
    assert "ConfigMap default/settings: metadata.annotations[" in message
    assert uid(b) == copy["metadata"]["uid"]
    reader.run_next()
    assert reader.is_done


def test_a_definition_of_the_original_drops_the_field_and_a_rule_by_hand_is_the_way(members: list[Member]) -> None:
    """A8: the synced rule does nothing where its field was dropped; one that is not synced acts where it was applied.

    The original would obey the rule without the field, and copy everything that it matches.
    """
    a, b, c = members
    for member in members:
        grant(member, "configmaps", [""], ["configmaps"])
    labels = {"original": "yes"}
    for name, targets in (("to-b", "b"), ("to-c", "c"), ("to-none", "")):
        a.create(config_map(name, {"a": "1"}, labels=labels, annotations={TARGETS: targets}))
    entry = {"match": [{"labels": [{"matchLabels": labels}]}]}
    asking = rule("by-object", CONFIG_MAP, entry, objectTargets="Required")

    def copies(member: Member) -> set[str]:
        found = member.get("-n", "default", "configmaps", "-l", "original=yes")["items"]
        return {item["metadata"]["name"] for item in found}

    c.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ORIGINAL))
    eventually(lambda: "objectTargets" not in c.kubectl("explain", "rsr.spec"), what="the original's definition")
    try:
        b.apply(asking)
        eventually(lambda: c.find("rsr", "by-object"))
        assert "objectTargets" not in c.get("rsr", "by-object")["spec"]
        eventually(lambda: copies(b) == {"to-b"})
        explained = run(c.cluster.kubeconfig, "explain", "configmap", "default/to-c").stdout
        assert "rule by-object does nothing here: spec: " in explained
        steadily(lambda: copies(c) == set(), for_s=5.0)

        b.kubectl("annotate", "rsr", "by-object", f"{DISABLED}=true")
        for member in (b, c):
            kept = member.find("rsr", "by-object")
            assert kept is not None
        c.kubectl("delete", "rsr", "by-object")
        steadily(lambda: c.find("rsr", "by-object") is None, for_s=5.0)
        steadily(lambda: (copies(b), copies(c)) == ({"to-b"}, set()), for_s=5.0)
    finally:
        c.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(OURS))
        eventually(lambda: "objectTargets" in c.kubectl("explain", "rsr.spec"), what="our definition")
    by_hand = {**asking, "metadata": {"name": "by-object", "annotations": {DISABLED: "true"}}}
    c.apply(by_hand)
    eventually(lambda: copies(c) == {"to-c"})
