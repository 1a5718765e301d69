"""`registry-controller get` and `watch`, and the programs of the docs and the examples, on real clusters."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from registry_controller.group import EventType, Group
from registry_controller.group.dialers import Context
from registry_controller.group.sources import ContextSource
from registry_controller.kube.connect import READING, Reader
from registry_controller.kube.writer import connect_local
from tests.docs.documents import blocks
from tests.e2e.commands import PROGRAM, contexts, merge_kubeconfigs, run
from tests.e2e.group import BIN, ROOT, Member, config_map, eventually, grant, secret
from tests.e2e.operators import Program, account

CANARY = "a-canary-that-stays-inside"
PAGE = ROOT / "docs" / "operators.md"
EXAMPLE = ROOT / "examples" / "watch-pods" / "watch_pods.py"

pytestmark = pytest.mark.group(2, prefix="get", grants=("pods",), canaries=(CANARY,), has_workloads=True)


@pytest.fixture(scope="module")
def merged(members: list[Member], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return merge_kubeconfigs(members, at=tmp_path_factory.mktemp("get") / "config")


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none.invalid/none"}
    spec = {"automountServiceAccountToken": False, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none.invalid/none"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    info = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": info, "spec": spec}


@contextmanager
def lines_of(
    *command: str, kubeconfig: Path, output: Path, stop: signal.Signals = signal.SIGINT
) -> Iterator[Callable[[], list[str]]]:
    """Run a program that prints until a signal, and give what reads the lines that it has printed."""
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    with output.open("w") as stdout:
        process = subprocess.Popen(command, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True)
    try:
        yield lambda: output.read_text().splitlines()
    finally:
        process.send_signal(stop)
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors, errors


def test_get_shows_the_objects_of_all_members(members: list[Member], merged: Path) -> None:
    first, second = members
    for member in members:
        member.apply(config_map("shown", {"at": member.name}, labels={"get": "yes"}))
    ended = run(first.cluster.kubeconfig, "get", "configmaps", "-n", "default", "-l", "get=yes")
    assert (ended.code, ended.stderr) == (0, "")
    heading, *rows = (line.split() for line in ended.stdout.splitlines())
    assert heading == ["CLUSTER", "NAMESPACE", "NAME", "AGE"]
    assert [row[:3] for row in rows] == [[member.name, "default", "shown"] for member in members]

    ended = run(merged, "get", "cm", "shown", "-o", "json", *contexts([first.name, second.name]))
    shown = json.loads(ended.stdout)["members"]
    assert [(one["name"], one["problem"], one["items"][0]["data"]["at"]) for one in shown] == [
        (member.name, "", member.name) for member in members
    ]
    assert not any("managedFields" in one["items"][0]["metadata"] for one in shown)
    ended = run(first.cluster.kubeconfig, "get", "cm", "shown", "--member", second.name, "-o", "wide")
    assert [line.split()[0] for line in ended.stdout.splitlines()] == ["CLUSTER", second.name]
    assert "get=yes" in ended.stdout
    ended = run(merged, "get", "cm", "shown", "-o", "name", *contexts([first.name, second.name]))
    assert (ended.code, ended.stdout) == (0, 2 * "configmap/shown\n")
    ended = run(first.cluster.kubeconfig, "get", "cm", "nowhere")
    assert (ended.code, ended.stdout) == (0, "")
    assert "no member has such an object" in ended.stderr


def test_get_names_the_missing_right_of_a_member_and_what_grants_it(members: list[Member]) -> None:
    first, second = members
    ended = run(first.cluster.kubeconfig, "get", "cronjobs.batch", "-A", "--wait", "60s")
    assert ended.code == 1
    assert f"{second.name}: " in ended.stderr
    assert "reader-aggregated" in ended.stderr
    assert "`registry-controller rbac` prints it for a rule of that kind" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_get_names_a_kind_that_a_member_does_not_serve(members: list[Member]) -> None:
    ended = run(members[0].cluster.kubeconfig, "get", "unicorns.example.com", "-A")
    assert ended.code == 1
    assert ended.stderr.count("serves no kind unicorns.example.com") == len(members)


def test_get_hides_the_values_of_secrets(members: list[Member], merged: Path) -> None:
    first, second = members
    second.create(secret("hidden", {"key": CANARY}))
    ended = run(merged, "get", "secret", "hidden", "-o", "yaml", *contexts([first.name, second.name]))
    assert ended.code == 0
    assert "<redacted>" in ended.stdout
    assert CANARY not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("pods", "-l", "a in"), 2, "no requirement"),
        (("pods", "x", "-A"), 2, "-A goes with neither -n nor NAME"),
        (("pods", "--watch", "-o", "json"), 2, "has no -o json"),
        (("pods", "--member", "nobody"), 1, "nobody: is no member"),
    ],
)
def test_get_refuses_what_it_cannot_do(
    members: list[Member], arguments: tuple[str, ...], code: int, words: str
) -> None:
    ended = run(members[0].cluster.kubeconfig, "get", *arguments)
    assert (ended.code, ended.stdout) == (code, "")
    assert words in ended.stderr


def test_watch_shows_each_change(members: list[Member], tmp_path: Path) -> None:
    first, second = members
    command = (str(PROGRAM), "watch", "configmaps", "-n", "default", "-l", "watch=yes")
    with lines_of(*command, kubeconfig=first.cluster.kubeconfig, output=tmp_path / "lines") as lines:
        second.apply(config_map("watched", {}, labels={"watch": "yes"}))
        eventually(lambda: any(second.name in line and "watched" in line for line in lines()), what="the object")
        second.kubectl("-n", "default", "delete", "configmap", "watched")
        eventually(lambda: any(line.startswith("DELETED") for line in lines()), what="its deletion")


def test_the_example_prints_cluster_namespace_and_name_of_pods(
    members: list[Member], merged: Path, tmp_path: Path
) -> None:
    first, second = members
    for number, names in enumerate(((), (first.name, second.name))):
        command = (sys.executable, str(EXAMPLE), *names)
        with lines_of(*command, kubeconfig=merged, output=tmp_path / str(number)) as lines:
            second.apply(pod("example"))
            eventually(lambda lines=lines: f"{second.name} default example added" in lines(), what="the Pod")
            second.kubectl("-n", "default", "delete", "pod", "example", "--grace-period=0", "--force")
            eventually(lambda lines=lines: f"{second.name} default example deleted" in lines(), what="its deletion")


def program_with(word: str) -> str:
    """Return the program of docs/operators.md that has a word in it."""
    (found,) = [block.text for block in blocks(PAGE) if block.language == "python" and word in block.text]
    return found


def test_the_program_of_the_page_counts_the_deployments_of_each_member(members: list[Member], tmp_path: Path) -> None:
    first, second = members
    for member in members:
        grant(member, "deployments", ["apps"], ["deployments"])
    script = tmp_path / "count.py"
    script.write_text(program_with("Prints how many Deployments"))
    with lines_of(
        sys.executable, str(script), kubeconfig=first.cluster.kubeconfig, output=tmp_path / "lines", stop=signal.SIGTERM
    ) as lines:
        # The chart's own Deployment is in each cluster.
        eventually(lambda: {f"{member.name} 1" for member in members} <= set(lines()), what="the first counts")
        assert len(lines()) == len(members)
        second.apply(deployment("more"))
        eventually(lambda: f"{second.name} 2" in lines(), what="the new one")
        second.kubectl("-n", "default", "delete", "deployment", "more")
        eventually(lambda: lines()[-1] == f"{second.name} 1", what="its end")


def test_the_operator_of_the_page_keeps_the_numbers_of_deployments(members: list[Member], tmp_path: Path) -> None:
    """It has the rights of the page alone, and a restart beside a silent member loses no number."""
    first, second = members
    script, output = tmp_path / "keep.py", tmp_path / "operator"
    script.write_text(program_with("Keeps the number of each member's Deployments"))
    (rights,) = [block.text for block in blocks(PAGE) if block.tag == "rights"]
    first.apply(*account("deployment-count"))
    for member in members:
        member.apply(*yaml.safe_load_all(rights))

    def kept() -> dict[str, str]:
        found = first.find("-n", "default", "configmap", "deployment-count")
        return found["data"] if found is not None else {}

    program = Program(first, str(script), account="deployment-count", output=output, stop=signal.SIGTERM)
    eventually(lambda: kept() == {first.name: "1", second.name: "1"}, what="the first numbers")
    second.apply(deployment("another"))
    eventually(lambda: kept() == {first.name: "1", second.name: "2"}, what="the new one")
    second.cluster.apiserver.stop()
    try:
        program.stop()
        program.start()
        eventually(lambda: kept() == {first.name: "1", second.name: "2 (stale)"}, what="the last number")
    finally:
        second.cluster.apiserver.start()
        second.cluster.apiserver.wait_ready(timeout_s=180)
    second.kubectl("-n", "default", "delete", "deployment", "another")
    eventually(lambda: kept() == {first.name: "1", second.name: "1"}, what="its end")
    program.stop()
    assert "may not" not in program.log(), program.log()


NOTES_END = """
import asyncio, kopf
operator = kopf.operator
async def note_end(**arguments):
    await operator(**arguments)
    print("tasks at the end of kopf:", len(asyncio.all_tasks()))
kopf.operator = note_end
"""


@pytest.mark.parametrize("way", ["python", "kopf run"])
def test_handlers_of_the_library_stand_beside_those_of_kopf(members: list[Member], tmp_path: Path, way: str) -> None:
    first, second = members
    program = program_with("import kopf")
    command = [sys.executable]
    if way == "kopf run":
        program = program.replace('asyncio.run(group.kopf.run(namespaces=["default"]))', "group.kopf.install()")
        command = [str(BIN / "kopf"), "run", "--namespace", "default"]
    else:
        program = f"{NOTES_END}\n{program}"
    script = tmp_path / "handlers.py"
    script.write_text(program)
    command, home = [*command, str(script)], first.cluster.kubeconfig
    with lines_of(*command, kubeconfig=home, output=tmp_path / "lines", stop=signal.SIGTERM) as lines:
        for member in members:
            member.apply(config_map("handled", {"at": member.name}, labels={"seen": "yes"}))
        wanted = {"here handled", f"{first.name} ADDED handled", f"{second.name} ADDED handled"}
        eventually(lambda: wanted <= set(lines()), what="a line of each handler")
        for member in members:
            member.kubectl("-n", "default", "delete", "configmap", "handled")
        eventually(lambda: f"{second.name} DELETED handled" in lines(), what="the deletion")
        assert {f"{member.name} SYNCED " for member in members} <= set(lines())
    if way == "python":  # kopf waits for every task that was started beside it, and the members' are over by then
        assert lines()[-1] == "tasks at the end of kopf: 1"


class RecordingReader(Reader):
    """A connection that keeps what lists and watches bring."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.received = list[bytes]()

    async def list_page(self, *arguments: Any, **options: Any) -> bytes:
        self.received.append(await super().list_page(*arguments, **options))
        return self.received[-1]

    @asynccontextmanager
    async def stream(self, *arguments: Any, **options: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().stream(*arguments, **options) as chunks:
            yield self._record(chunks)

    async def _record(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self.received.append(chunk)
            yield chunk


@pytest.mark.parametrize("metadata_only", [False, True])
async def test_a_watch_of_metadata_receives_no_bodies(members: list[Member], metadata_only: bool) -> None:
    owner, readers, kind = members[1], list[RecordingReader](), "metadata" if metadata_only else "whole"

    def create(name: str) -> None:
        owner.create(config_map(name, {"value": "a-body"}, labels={"bodies": kind}))

    first, second = (f"{kind}-{number}" for number in (1, 2))
    create(first)

    async def connect(_: Any) -> Reader:
        writer = await connect_local(kubeconfig=owner.cluster.kubeconfig, methods=READING)
        readers.append(RecordingReader(writer._transport))
        return readers[-1]

    source = ContextSource([Context(name="owner")])
    async with asyncio.timeout(120), Group(source, connect_by_context=connect) as group:
        watch = group.watch("configmaps", label_selector=f"bodies={kind}", metadata_only=metadata_only)
        names = list[str]()
        async for event in watch:
            if event.object is not None:
                names.append(event.object.name)
                assert event.object.has_body is not metadata_only
            elif event.type is EventType.SYNCED:
                await asyncio.to_thread(create, second)
            if names == [first, second]:
                break
    received = b"".join(chunk for reader in readers for chunk in reader.received)
    assert second.encode() in received
    assert (b"a-body" in received) is not metadata_only
