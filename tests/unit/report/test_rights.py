"""Each message of a missing right names what gives the right: `rbac`, the chart, or the account that lacks it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

import registry_controller
from registry_controller.admin.findings import CheckResult, Level, Problem, ValueRemedies, remedy
from registry_controller.admin.remote_probe import Viewer, view_members
from registry_controller.admin.sites import connect_sites
from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, NotFound
from registry_controller.api.meta import GVK, GVR, ClusterUID
from registry_controller.api.names import RIGHTS_COMMAND
from registry_controller.api.selection import EVERYTHING
from registry_controller.cli.failures import explain_error
from registry_controller.clusters.dialer import read_proven_id
from registry_controller.group.local_access import _OperatorMessages
from registry_controller.group.owner_proof import Witnesses, ask_members
from registry_controller.group.ownership import Owner
from registry_controller.group.sources import _with_grant
from registry_controller.group.streams import MemberStream, StreamRequest
from registry_controller.local.client import DaemonMessages, UserMessages
from registry_controller.report.reasons import explain_refusal, explain_unread
from registry_controller.sync.copy_writer import CopyWriter
from tests.docs.documents import ROOT, table
from tests.unit.admin.api_server import running
from tests.unit.admin.test_checks import World

LACKING: Final = Forbidden("list things: 403 Forbidden", lacks_right=True)
CONFIG_MAP: Final = GVK("", "v1", "ConfigMap")
REQUEST: Final = StreamRequest("things", EVERYTHING, metadata_only=True)
RBAC, CHART, ACCOUNT = f"`{RIGHTS_COMMAND}`", "chart", "account"

ADVICE = re.compile(r"\bgrant (?:it|that|the)\b|gives that right|describe_\w*grant\(|\]\.explain\(error\)")


class Row(NamedTuple):
    """A module that spells messages of a missing right, the thing that gives the right, and one of its messages."""

    module: str
    gives: str
    spell: Callable[[Path], Awaitable[str]]


def spelled(function: Callable[[], str]) -> Callable[[Path], Awaitable[str]]:
    async def spell(_: Path) -> str:
        return function()

    return spell


async def message_of(call: Awaitable[object]) -> str:
    with pytest.raises(Forbidden) as raised:
        await call
    return str(raised.value)


class Refusing:
    """An API server that refuses each request."""

    async def create(self, *_: object) -> bytes:
        raise LACKING

    async def get(self, *_: object, timeout_s: float) -> bytes:
        raise LACKING


async def create_namespace(_: Path) -> str:
    server: Any = Refusing()
    writer = CopyWriter(
        reader=server,
        client=server,
        discovery=server,
        bodies=server,
        digest_key=b"",
        on_stored=lambda *_: None,
        containers=server,
    )
    return await message_of(writer.create_namespace("team"))


async def read_id(_: Path) -> str:
    reader: Any = Refusing()
    return await message_of(read_proven_id(reader))


async def run_in_pod(folder: Path) -> str:
    world = World()
    async with running(world.a):
        world.fill()
        world.a.forbidden.add(("create", "pods"))
        config = folder / "kubeconfig"
        config.write_text(world.a.kubeconfig, encoding="utf-8")
        async with connect_sites([(config, None)], namespace=None) as sites:
            (found,) = await view_members([Viewer(sites.require_all()[0], "a", ())])
    return found.obstacle


def stream(*, by_context: bool) -> MemberStream:
    return MemberStream("b", REQUEST, by_context=by_context, others=lambda _: (), refused=lambda _: None)


def ask_owner(*, is_shown: bool) -> Callable[[Path], Awaitable[str]]:
    """Ask a member for an owner whose kind its reader may not read, or else whose ID is not shown afterwards."""

    async def spell(_: Path) -> str:
        refusing: Any = Refusing()

        async def get(*_: object, timeout_s: float) -> bytes:
            raise NotFound("get thing: 404", names_object=True) if is_shown else LACKING

        async def resolve(kind: GVK) -> GVR:
            return meta.SECRETS

        shown = stream(by_context=False)
        shown.kind = CONFIG_MAP
        connection: Any = SimpleNamespace(
            name="b", is_alive=True, streams={"s": shown}, reader=SimpleNamespace(get=get),
            discovery=SimpleNamespace(resolve=resolve),
            dialer=SimpleNamespace(cluster_id="id-b", prove=lambda _: read_proven_id(refusing)),
        )  # fmt: skip
        owner = Owner(ClusterUID("id-b"), "", "ConfigMap", "default", "x", "uid")
        return (await ask_members(Witnesses([connection]), owner, unidentified={})).reason

    return spell


def found(problem: Problem) -> str:
    return remedy(CheckResult("b", "rights", Level.FAIL, "lacking", problem), ValueRemedies())


RIGHT: Final[dict[str, Any]] = {"verb": "list", "gvr": meta.CLUSTERS, "namespace": "", "subresource": ""}

ROWS = [
    Row("report/reasons.py", RBAC, spelled(lambda: explain_unread(CONFIG_MAP, LACKING, is_local=True))),
    Row("report/reasons.py", RBAC, spelled(lambda: explain_unread(CONFIG_MAP, LACKING, is_local=False))),
    Row("report/reasons.py", RBAC, spelled(lambda: explain_refusal(LACKING))),
    Row("sync/copy_writer.py", RBAC, create_namespace),
    Row("group/streams.py", RBAC, spelled(lambda: stream(by_context=False).explain(LACKING))),
    Row("group/owner_proof.py", RBAC, ask_owner(is_shown=False)),
    Row("admin/findings.py", RBAC, spelled(lambda: found(Problem.MISSING_RIGHT))),
    Row("cli/failures.py", RBAC, spelled(lambda: explain_error(LACKING))),
    Row("clusters/dialer.py", CHART, read_id),
    Row("group/owner_proof.py", CHART, ask_owner(is_shown=True)),
    Row("local/client.py", CHART, spelled(lambda: DaemonMessages().forbidden(**RIGHT))),
    Row("admin/findings.py", CHART, spelled(lambda: found(Problem.OWN_RIGHT))),
    Row("group/streams.py", ACCOUNT, spelled(lambda: stream(by_context=True).explain(LACKING))),
    Row("group/sources.py", ACCOUNT, spelled(lambda: str(_with_grant(LACKING)))),
    Row("group/local_access.py", ACCOUNT, spelled(lambda: _OperatorMessages().forbidden(**RIGHT))),
    Row("local/client.py", ACCOUNT, spelled(lambda: UserMessages("context a").forbidden(**RIGHT))),
    Row("admin/remote_probe.py", ACCOUNT, run_in_pod),
]
IN_LOGS = {"status/lease.py"}
"""The test of the Lease's log line reads its advice."""


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.module}-{row.gives.strip('`')}" for row in ROWS])
@pytest.mark.clause("S3")
async def test_each_message_of_a_missing_right_names_what_gives_it(row: Row, tmp_path: Path) -> None:
    text = await row.spell(tmp_path)
    if row.gives == ACCOUNT:
        assert re.search(r"grant (it|that) (there )?to (its account|that user|the account of this program)", text)
    else:
        assert row.gives in text
    assert (RBAC in text) is (row.gives == RBAC)
    assert len(re.findall(r"\bgrant (?:it|that)\b", text)) <= 1


def test_no_other_module_spells_such_a_message() -> None:
    folder = Path(registry_controller.__file__).parent
    modules = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if any(ADVICE.search(line) and '"""' not in line for line in path.read_text(encoding="utf-8").splitlines())
    }
    assert modules == {row.module for row in ROWS} | IN_LOGS


def test_the_page_names_the_three_remedies() -> None:
    rows = table(ROOT / "docs" / "permissions.md", header="right")
    assert len(rows) == 3
    for (_, names), word in zip(rows, (RBAC, CHART, ACCOUNT), strict=True):
        assert word in names
