"""The writes that say nothing new, and which of them a daemon was right to send (A10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Final, NamedTuple

from registry_controller.api.meta import ObjectKey
from registry_controller.kube.transport import DRY_RUN
from tests.sim.checks.history import History
from tests.sim.cluster.apiserver import ApiServer
from tests.sim.cluster.member import Member
from tests.sim.cluster.request import Answer
from tests.sim.schedule.vocabulary import WRITTEN

_REFUSALS: Final = (400, 403, 422)
"""How a webhook without support for dry runs, a policy, a quota, a missing right, and a validation answer."""

_SCHEMAS: Final = "/openapi/v3"

Break = Callable[[str, str, str], None]


class _ByDaemon(NamedTuple):
    """A replacement, and which daemon of a cluster sent it."""

    cluster: str
    starts: int
    path: str
    body: bytes | None


class UnneededWrites:
    """It tells `breaks` of a replacement after which an object is what it was.

    Two things explain one. Somebody edited the object before: each edit is put back once, also where that is no repair.
    Or a dry run of this very replacement was refused, and the daemon heard so: whatever refused it may have ended when
    the write comes. A refusal explains one write. It explains none of what this daemon wrote before, and was told to be
    stored. Only where that lacked a field may the daemon try once more: when it reads the hashes of the schemas for the
    first time, because one may have changed since the write, and when it reads others.
    """

    def __init__(self, history: History, breaks: Break) -> None:
        self._history = history
        self._break = breaks
        self._refused: set[tuple[str, str, bytes | None]] = set()
        """The replacements, by cluster, path and body, whose last dry run was refused, and that were not sent since.

        Not by daemon: what a killed one has sent may arrive when the next one has begun.
        """
        self._stored: dict[_ByDaemon, bool] = {}
        """The replacements that were stored, as a daemon was told, and whether a field was lost."""
        self._hashes: dict[tuple[str, int], bytes] = {}
        self._explained: set[tuple[ApiServer, int]] = set()
        """Places in journals."""

    def see_answer(
        self, method: str, path: str, body: bytes | None, answer: Answer, *, who: Member, at: Member
    ) -> None:
        """Look at an answer that has come back to a daemon."""
        place, _, query = path.partition("?")
        if who is at and (method, place, answer.status) == ("GET", _SCHEMAS, 200):
            self._see_hashes(answer.body, at)
        if method != "PUT" or who is not at:
            return
        if DRY_RUN not in query.split("&"):
            if answer.status == 200:
                self._stored[_ByDaemon(at.name, at.starts, place, body)] = bool(answer.warnings)
        elif answer.status in _REFUSALS:
            self._refused.add((at.name, place, body))
        else:
            self._refused.discard((at.name, place, body))

    def _see_hashes(self, hashes: bytes, at: Member) -> None:
        if self._hashes.get((at.name, at.starts)) != hashes:
            self._hashes[at.name, at.starts] = hashes
            lost = [one for one, has_lost in self._stored.items() if has_lost and one.cluster == at.name]
            for one in lost:
                del self._stored[one]

    def see_write(self, path: str, body: bytes | None, server: ApiServer, *, at: Member) -> None:
        """Look at the last write in a server's journal."""
        place = path.partition("?")[0]
        is_refused = (at.name, place, body) in self._refused
        self._refused.discard((at.name, place, body))
        if is_refused and _ByDaemon(at.name, at.starts, place, body) not in self._stored:
            self._explained.add((server, len(server.journal) - 1))

    def check(self, server: ApiServer, name: str) -> None:
        """Check all that a daemon asked its server to write. Two daemons may send the same at once."""
        if self._history.members[name].has_pods:
            return
        edits = defaultdict[tuple[str, ObjectKey], list[float]](list)
        for entry in self._history.entries:
            if entry.cluster == name and entry.who != name:
                edits[entry.change.kind.kind, entry.change.key].append(entry.at)
        for number, write in enumerate(server.journal):
            is_update = write.verb == "update" and write.kind in WRITTEN and write.status == 200
            if not is_update or write.changed or (server, number) in self._explained:
                continue
            earlier = edits[write.kind, write.key]
            if earlier and earlier[0] <= write.at:
                earlier.pop(0)
            else:
                where = f"{write.verb} {write.kind} {write.key} at {name} by {write.who}"
                self._break("A10", where, "was sent, and is what is stored")
