"""Strangers at the gate of a home: what each does is said, what it costs is bounded, and what was written is known."""

from __future__ import annotations

import base64
import fnmatch
import json
import time
from collections.abc import Iterator, Sequence
from typing import Final

from tests.e2e.group import NAMESPACE
from tests.hostile.cases import CANARY, GOOD, NATIVE, Case, config_map, good_name
from tests.hostile.home import REGISTRY, Home
from tests.hostile.server.stranger import Stranger

_ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:cluster-registry-controller"
_READS: Final = frozenset({"get", "list", "watch"})
_OWN_DUTIES: Final = frozenset(
    {"clusters/status", "resourcesyncrules/status", "events", "serviceaccounts/token", "selfsubjectaccessreviews"}
)
_MIB: Final = 1024 * 1024


class Siege:
    """Some strangers at once, each with its case. Made, it has begun; `end` looks back on it."""

    def __init__(self, home: Home, cases: Sequence[Case], *, growth_mib: int) -> None:
        self.home = home
        self.growth_mib = growth_mib
        self.before = home.forget_peak()
        self.latencies: list[float] = []
        self._audit = home.member.cluster.audit_offset()
        self._began = time.monotonic()
        self._cpu = home.cpu_s()
        self.servers: dict[str, Stranger] = {}
        self.cases = {case.does: case for case in cases}
        for number, case in enumerate(cases):
            server = self.servers[case.does] = Stranger(home.grounds, f"s{self._unique()}-{number}")
            server.victims = home.victims
            server.put(config_map(good_name(server)))
            case.arm(server)
            server.open()
        home.introduce(*self.servers.values())

    def hold(self, does: str) -> None:
        """Hold one case: what is said is said, the honest peer is followed meanwhile, and memory stays."""
        self.home.hears(self.servers[does], self.cases[does], lambda: self.latencies.append(self.home.follows()))
        until = time.monotonic() + self.cases[does].lasts_s
        while time.monotonic() < until:
            self.latencies.append(self.home.follows())
        self._hold_memory()

    def end(self) -> str:
        """Hold what must be so over the whole siege, and sum up in a line; dismiss everybody, whatever was found."""
        grown, cpu_s = (self.home.peak() - self.before) / _MIB, self.home.cpu_s() - self._cpu
        lasted_s = time.monotonic() - self._began
        try:
            self._hold_memory()
            self._hold_requests(lasted_s)
            self._hold_writes()
            self._hold_copies()
            self._hold_secrets()
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

    def _hold_memory(self) -> None:
        grown = (self.home.peak() - self.before) / _MIB
        assert grown < self.growth_mib, f"the daemon grew by {grown:.0f} MiB"
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
            assert len(paced) < 60 + 12 * lasted_s, f"{does}: {len(paced)} requests in {lasted_s:.0f} s"

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
        """The daemon wrote nothing but copies, and what it says."""
        allowed = [("configmaps", "default", "steady"), *self._expected()]
        for line in self.home.member.cluster.audit(self._audit):
            refused = line.get("responseStatus", {}).get("code", 0) >= 400
            if line["user"].get("username") != _ACCOUNT or line["verb"] in _READS or refused:
                continue
            reference = line.get("objectRef", {})
            resource = "/".join(filter(None, (reference.get("resource"), reference.get("subresource"))))
            place = (resource, reference.get("namespace", ""), reference.get("name", ""))
            assert resource in _OWN_DUTIES or any(_fits(place, held) for held in allowed), line

    def _hold_copies(self) -> None:
        expected = self._expected()
        for item in self.home.copies({server.uid for server in self.servers.values()}):
            info = item["metadata"]
            place = ("configmaps", info["namespace"], info["name"])
            assert any(_fits(place, held) for held in expected), info
            assert not info.get("finalizers"), info
            assert not info.get("ownerReferences"), info
        native = self.home.find(NATIVE) or {}
        assert native["data"] == {"text": "home"}, native
        assert not native["metadata"].get("annotations"), native

    def _expected(self) -> list[tuple[str, str, str]]:
        """List what may come, as resources, namespaces and patterns of names."""
        found = []
        for does, case in self.cases.items():
            own = self.servers[does].name
            found += [("configmaps", "default", name.format(own)) for name in (*case.copied, *case.may_come, GOOD)]
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
