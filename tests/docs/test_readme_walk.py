"""The commands of README and docs, typed one after the other on two real control planes, in the order of the reader."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from hack.controlplane import Group, Kubelet, ensure_binaries
from tests.docs.documents import DOCUMENTS, ROOT, Block, blocks

PAGES = ["README.md", *(
    f"docs/{name}.md" for name in (
        "security", "joining", "permissions", "monitoring", "explain-and-plan", "operations", "credentials", "leaving",
        "recovery", "upgrading",
    )
)]  # fmt: skip
"""The pages in the order of the walk: the later ones need what the earlier ones made, and the last one removes it."""


def blocks_of_the_walk(page: str) -> list[Block]:
    return [block for block in blocks(ROOT / page) if block.language == "sh" and block.tag == "run=walk"]


WALK = [block for page in PAGES for block in blocks_of_the_walk(page)]
NAMES = {"bench-1": "kind-a", "bench-2": "kind-b"}
BIN = Path(sys.executable).parent
# What the reader's own function does with the nodes, which are not here.
PRELUDE = """
address() { kubectl config view --minify --context "$1" -o jsonpath='{.clusters[0].cluster.server}'; }
"""


@dataclass
class Reader:
    """Somebody at a shell, with the contexts kind-a and kind-b, whose clusters have nodes."""

    group: Group
    env: dict[str, str]
    kubelets: dict[str, Kubelet] = field(default_factory=dict)

    def type(self, text: str) -> str:
        """Type a block of commands, as one script that ends at the first failure."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", PRELUDE + text], cwd=ROOT, env=self.env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        self._run_deployments()
        return done.stdout

    def sees(self, command: str, expected: str) -> None:
        """Look again and again until it is there."""
        deadline = time.monotonic() + 30
        while True:
            done = subprocess.run(["bash", "-c", command], env=self.env, capture_output=True, text=True, check=False)
            if expected in done.stdout:
                return
            assert time.monotonic() < deadline, f"{command}: {done.stdout}{done.stderr}"
            time.sleep(0.2)

    def _run_deployments(self) -> None:
        """Play the nodes, once there is something to run."""
        for cluster in self.group:
            found = cluster.kubectl("get", "deployments", "-n", "cluster-registry", "-o", "name", "--ignore-not-found")
            if found.strip() and cluster.name not in self.kubelets:
                kubelet = Kubelet(cluster, path_prepend=[BIN])
                kubelet.start()
                self.kubelets[cluster.name] = kubelet


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    home = tmp_path_factory.mktemp("reader")
    binaries = ensure_binaries()
    for tool in ("kubectl", "helm"):
        (home / tool).symlink_to(binaries[tool])
    with Group(2, prefix="bench") as group:
        config = yaml.safe_load(group.kubeconfig.read_text(encoding="utf-8"))
        for context in config["contexts"]:
            context["name"] = NAMES[context["name"]]
        (home / "kubeconfig").write_text(yaml.safe_dump(config), encoding="utf-8")
        path = f"{home}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "HOME": str(home), "KUBECONFIG": str(home / "kubeconfig")}
        reader = Reader(group, env)
        yield reader
        for kubelet in reader.kubelets.values():
            with contextlib.suppress(Exception):
                kubelet.stop()


def test_no_page_is_left_out_of_the_walk() -> None:
    walked = {str(path.relative_to(ROOT)) for path in DOCUMENTS if blocks_of_the_walk(str(path.relative_to(ROOT)))}
    assert walked <= {*PAGES}


@pytest.mark.timeout(600)
def test_the_commands_of_readme_and_docs_work_in_their_order(reader: Reader) -> None:
    output = {}
    for block in WALK:
        output[block.name] = reader.type(block.text)
        if "apply -f docs/examples/greetings-rule" in block.text:
            assert "hello from the second cluster" in output[block.name]
            _the_copy_follows(reader)
    told = "".join(output.values())
    assert "rule greetings matches" in told
    assert "0 to create, 0 to update, 0 to delete, 1 in sync" in told
    clusters = next(text for text in output.values() if "NAME" in text and "Peer" in text)
    assert "Ready" in clusters


def _the_copy_follows(reader: Reader) -> None:
    """Check what README says in words: an edit is put back, and a change at the owner arrives."""
    read = "kubectl --context kind-a -n default get secret hello -o jsonpath='{.data.text}' | base64 -d"
    patch = "-n default patch secret hello --type merge -p"
    reader.type(f'kubectl --context kind-a {patch} \'{{"stringData": {{"text": "mine"}}}}\'')
    reader.sees(read, "hello from the second cluster")
    reader.type(f'kubectl --context kind-b {patch} \'{{"stringData": {{"text": "changed"}}}}\'')
    reader.sees(read, "changed")
