"""Strangers at the gate of a home: what each does is said, what it costs is bounded, and what was written is known."""

from __future__ import annotations

import base64
import fnmatch
import json
import time
from collections.abc import Iterator
from typing import Final

from registry_controller.api import meta
from tests.e2e.group import NAMESPACE, eventually
from tests.hostile.cases import CANARY, GOOD, NATIVE, Case, Copy, Family, config_map, good_name
from tests.hostile.home import REGISTRY, WORDS_S, Home
from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import Manifest
from tests.hostile.shown import MIB, Claim, Sight

_ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
_READS: Final = frozenset({"get", "list", "watch"})
_OWN_DUTIES: Final = frozenset(
    {
        "clusters/status",
        "resourcesyncrules/status",
        "events",
        "serviceaccounts/token",
        "selfsubjectaccessreviews",
        "leases",
    }
)
_MARK_LENGTH: Final = 4096


class Siege:
    """The strangers of a family at once, each with its case. Made, it has begun; `end` looks back on all of it."""

    def __init__(self, home: Home, family: Family) -> None:
        self.home = home
        self.family = family
        self.before = home.forget_peak()
        self.latencies: list[float] = []
        self._audit = home.member.cluster.audit_offset()
        self._began = time.monotonic()
        self._cpu = home.cpu_s()
        self._own = home.own()
        self._copies: dict[str, dict[str, Manifest]] = {}
        self.servers: dict[str, Stranger] = {}
        self.cases = {case.does: case for case in family.cases}
        for number, case in enumerate(family.cases):
            server = self.servers[case.does] = Stranger(home.grounds, f"s{self._unique()}-{number}")
            server.victims = home.victims
            server.put(config_map(good_name(server)))
            case.arm(server)
            server.open()
        home.introduce(*self.servers.values())
        turning = [case for case in family.cases if case.turns is not None]
        for case in turning:
            self._wait_for_copies(case)
        for case in turning:
            assert case.turns is not None
            self.servers[case.does].turn(case.turns)

    def hold(self, does: str) -> None:
        """Hold what a case brings: it is said, and here, the honest peer is followed meanwhile, and memory stays."""
        case = self.cases[does]
        self.home.hears(self.servers[does], case, lambda: self.latencies.append(self.home.follows()))
        self._follow_until(time.monotonic() + case.lasts_s)
        if does not in self._copies:
            self._wait_for_copies(case)
        for claim in case.claims:
            eventually(
                lambda claim=claim: claim.comes(self._look(does)) or True,
                within_s=WORDS_S,
                what=f"{does}: {claim.words}",
            )
        self._hold_memory()

    def look_back(self, does: str) -> None:
        """Hold what must still be so of a case when all of the family have stood there for a while."""
        self._follow_until(self._began + self.family.lasts_s)
        held = self._copies[does]
        for copy in self.cases[does].copied:
            name = copy.name.format(self.servers[does].name)
            found = self._copy(does, copy)
            assert found["metadata"]["uid"] == held[name]["metadata"]["uid"], f"{name} went, and came again"
        sight = self._look(does)
        for claim in self.cases[does].claims:
            claim.holds(sight)

    def end(self) -> str:
        """Hold what must be so over the whole siege, and sum up in a line; dismiss everybody, whatever was found."""
        grown, cpu_s = self._grown_mib(), self.home.cpu_s() - self._cpu
        lasted_s = time.monotonic() - self._began
        try:
            self._hold_memory()
            self._hold_requests(lasted_s)
            self._hold_writes()
            self._hold_copies()
            self._hold_secrets()
            assert self.home.own() == self._own, "what was here was changed"
            assert self.home.elsewhere.visits == 0, "somebody was led elsewhere"
            idle = [does for does, server in self.servers.items() if not server.misdeeds and server.orders]
            assert not idle, f"these did nothing: {idle}"
        finally:
            self.home.dismiss(*self.servers.values())
            for server in self.servers.values():
                server.close()
        slowest = max(self.latencies, default=0.0)
        return (
            f"{len(self.servers)} strangers for {lasted_s:.0f} s: +{grown:.0f} MiB, {cpu_s:.1f} s of CPU, "
            f"the honest peer within {slowest:.2f} s"
        )

    def _follow_until(self, moment_s: float) -> None:
        while time.monotonic() < moment_s:
            self.latencies.append(self.home.follows())

    def _wait_for_copies(self, case: Case) -> None:
        """Remember the copies of a case as they are when they are what they must be."""
        name = self.servers[case.does].name
        self._copies[case.does] = {
            copy.name.format(name): eventually(
                lambda copy=copy: self._copy(case.does, copy), within_s=WORDS_S, what=f"{case.does}: {copy.name}"
            )
            for copy in case.copied
        }

    def _copy(self, does: str, copy: Copy) -> Manifest:
        """Find a copy; AssertionError for one with other content, or with other marks than the daemon's own."""
        server = self.servers[does]
        name = copy.name.format(server.name)
        found = self.home.find(name)
        assert found is not None, f"there is no {name}"
        info = found["metadata"]
        marks = info.get("annotations") or {}
        assert set(marks) == {meta.OWNER, meta.PROVENANCE}, (name, sorted(marks))
        origin = json.loads(marks[meta.PROVENANCE]) if len(marks[meta.PROVENANCE]) < _MARK_LENGTH else {}
        assert (marks[meta.OWNER], origin.get("owner")) == (server.uid, server.uid), (name, marks)
        assert not info.get("finalizers"), info
        assert not info.get("ownerReferences"), info
        assert found.get("data") == copy.data, (name, str(found.get("data"))[:300])
        return found

    def _look(self, does: str) -> Sight:
        server, case = self.servers[does], self.cases[does]
        return Sight(
            home=self.home,
            server=server,
            copies=self._copies.get(does, {}),
            lasted_s=time.monotonic() - max(self._began, server.turned_at),
            grown_mib=self._grown_mib(),
            words=case.said,
            standing=lambda: self.home.standing(server, case),
            latencies=self.latencies,
            own=self._own,
            beside=self._beside,
        )

    def _beside(self, claim: Claim) -> list[Sight]:
        found = [does for does, case in self.cases.items() if any(claim is made for made in case.claims)]
        return [self._look(does) for does in found]

    def _grown_mib(self) -> float:
        return (self.home.peak() - self.before) / MIB

    def _hold_memory(self) -> None:
        grown = self._grown_mib()
        assert grown < self.family.growth_mib, f"the daemon grew by {grown:.0f} MiB"
        assert self.home.member.daemon.restarts == 0, self.home.member.log()[-4000:]

    def _hold_requests(self, lasted_s: float) -> None:
        """Each saw only reads, with its own token and no other, and at a pace."""
        everybody = [*self.servers.values(), self.home.honest]
        tokens = {server.token for server in everybody} | set(self._home_canaries())
        for server in everybody:
            foreign = tokens - {server.token}
            for ask in server.asked:
                assert ask.method == "GET", (server.name, ask)
                assert set(ask.headers) <= {"host", "authorization", "user-agent", "accept", "accept-encoding"}, ask
                spelled = f"{ask.target} {json.dumps(dict(ask.headers))}"
                assert not any(canary in spelled for canary in foreign), f"{server.name} saw a canary"
        for does, server in self.servers.items():
            paced = [ask for ask in server.asked if "continue" not in ask.query]
            assert len(paced) < 80 + 6 * lasted_s, f"{does}: {len(paced)} requests in {lasted_s:.0f} s"
            assert len(server.dialled) < 30 + 2 * lasted_s, f"{does}: {len(server.dialled)} dials in {lasted_s:.0f} s"

    def _hold_secrets(self) -> None:
        """No token, and nothing of what an error quoted, is in the log or in what is said."""
        said = json.dumps([self.home.maps(f"{REGISTRY}/{plural}") for plural in ("clusters", "resourcesyncrules")])
        written = self.home.member.log()
        for canary in (CANARY, *(server.token for server in self._all())):
            assert canary not in said
            assert canary not in written

    def _home_canaries(self) -> Iterator[str]:
        for item in self.home.api.get("/api/v1/secrets")["items"]:
            for value in (item.get("data") or {}).values():
                text = base64.b64decode(value).decode(errors="replace")
                if len(text) > 20 and not any(server.token in text for server in self._all()):
                    yield text

    def _all(self) -> list[Stranger]:
        return [*self.servers.values(), self.home.honest]

    def _hold_writes(self) -> None:
        """The daemon wrote nothing but copies, and what it says; it deleted nothing."""
        allowed = [("configmaps", "default", "steady"), *self._expected()]
        for line in self.home.member.cluster.audit(self._audit):
            refused = line.get("responseStatus", {}).get("code", 0) >= 400
            if line["user"].get("username") != _ACCOUNT or line["verb"] in _READS or refused:
                continue
            reference = line.get("objectRef", {})
            resource = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
            place = (resource, reference.get("namespace", ""), reference.get("name", ""))
            assert line["verb"] != "delete", line
            assert resource in _OWN_DUTIES or any(_fits(place, held) for held in allowed), line

    def _hold_copies(self) -> None:
        expected = self._expected()
        for item in self.home.copies({server.uid for server in self.servers.values()}):
            info = item["metadata"]
            place = ("configmaps", info["namespace"], info["name"])
            assert any(_fits(place, held) for held in expected), info
        native = self.home.find(NATIVE) or {}
        assert native["data"] == {"text": "home"}, native
        assert not native["metadata"].get("annotations"), native

    def _expected(self) -> list[tuple[str, str, str]]:
        """List what may come, as resources, namespaces and patterns of names."""
        found = []
        for does, case in self.cases.items():
            own = self.servers[does].name
            found += [("configmaps", "default", name.format(own)) for name in (*(c.name for c in case.copied), GOOD)]
            if case.introduces:
                name = case.introduces.format(own)
                found += [("clusters", "", name), ("secrets", NAMESPACE, name)]
            if case.brings:
                found.append(("resourcesyncrules", "", case.brings.format(own)))
        return found

    _count = 0

    @classmethod
    def _unique(cls) -> int:
        cls._count += 1
        return cls._count


def _fits(place: tuple[str, str, str], held: tuple[str, str, str]) -> bool:
    return place[:2] == held[:2] and fnmatch.fnmatchcase(place[2], held[2])
