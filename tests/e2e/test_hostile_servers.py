"""API servers in bad hands, against the real daemon: every row of the table in docs/security-tests.md.

The strangers of a family are there at once, and an honest peer beside them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hack.controlplane import Group
from tests.e2e.group import CONFIG_MAP, SECRET, Member, grant, rule
from tests.hostile.cases import NATIVE, Case, config_map
from tests.hostile.home import Home
from tests.hostile.server.stranger import Grounds
from tests.hostile.shown import MAPS
from tests.hostile.siege import Siege
from tests.hostile.tables import FAMILIES

ROWS = [(family, case) for family in FAMILIES for case in family.cases]
IDS = [f"{family.name}-{case.does}" for family, case in ROWS]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Group(1, prefix="home") as group, Grounds() as grounds:
        member = Member(group[0]).install()
        member.daemon.wait_ready(timeout_s=180)
        grant(member, "configmaps", [""], ["configmaps"])
        member.apply(
            rule("maps", CONFIG_MAP, {"match": [{"namespaces": ["default"]}]}),
            rule("labelled", SECRET, {"match": [{"labels": [{"matchLabels": {"share": "yes"}}]}]}),
        )
        member.cluster.api.request("POST", MAPS, body={**config_map(NATIVE), "data": {"text": "home"}})
        member.kubectl("wait", "--for=create", f"cluster/{member.name}", "--timeout=180s")
        found = Home(member, grounds)
        found.introduce(found.honest)
        found.follows()
        yield found
        found.close()


@pytest.fixture(scope="module")
def siege(request: pytest.FixtureRequest, home: Home) -> Iterator[Siege]:
    found = Siege(home, request.param)
    yield found
    print(f"\n{request.param.name}: {found.end()}")


@pytest.mark.parametrize(("siege", "case"), ROWS, indirect=["siege"], scope="module", ids=IDS)
def test_what_a_server_in_bad_hands_does_stays_its_own_trouble(siege: Siege, case: Case) -> None:
    """P4, P5, P6, R3: it is said, memory is bounded, the honest peer is followed, and nothing else is written."""
    siege.hold(case.does)


@pytest.mark.parametrize(("siege", "case"), ROWS, indirect=["siege"], scope="module", ids=IDS)
def test_what_was_so_under_siege_stays_so(siege: Siege, case: Case) -> None:
    """P4, P6, R3: when all have stood there for a while, its copies are as they came, and it was asked no more often
    than the table says.
    """
    siege.look_back(case.does)
