"""Measure how far four changes walk through the daemon's files: `hack/walks [a] [b] [c] [d]`.

Two simulated members (`tests/sim`) have joined, and the local one has one plain rule for Secrets. Only the local
daemon runs during a walk, observed with `sys.setprofile`:

a  a Secret is created at the peer, until its copy is created here
b  a peer's Cluster and Secret are carried here, until the first watch at the peer
c  the owner deletes a Secret, until its copy is deleted here
d  a rule for one Secret is edited beside a rule for 200, until the one copy is written here

files      files of registry_controller/ with a function that was called
hops       changes of file from one call to the next in one turn of the event loop; the first call of a turn counts.
           In a turn, a hop between the same two functions counts once: a loop over many objects is one loop.
back       hops into a file that the walk had entered before: hops - files
adds       calls of `WorkQueue.add`
decisions  calls of `decide`
gets       requests for one object at the peer
lists      lists at the peer, and watches that begin with one
writes     requests here that create, replace, patch or delete an object; those with `dryRun` do not count
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import functools
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

if TYPE_CHECKING:
    from tests.sim.cluster.group import SimGroup
    from tests.sim.cluster.member import Member
    from tests.sim.cluster.request import Answer
    from tests.sim.cluster.watch import Watch

PACKAGE: Final = f"{Path(__file__).resolve().parents[2] / 'registry_controller'}/"
BESIDE: Final = 200
"""Objects of the other rule in walk d."""
POLL_S: Final = 0.001
TIMEOUT_S: Final = 300.0
REST_S: Final = 65.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a walk may count; None is unbounded."""

    files: int | None = None
    hops: int | None = None
    adds: int | None = None
    decisions: int | None = None
    gets: int | None = None
    lists: int | None = None
    writes: int | None = None

    def __str__(self) -> str:
        return ", ".join(f"{name} <= {most}" for name, most in self.items())

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield the bounded counts, in the table's order."""
        for name in self.__slots__:
            if (most := getattr(self, name)) is not None:
                yield name, most


BOUNDS: Final = {
    "a": Bounds(files=30, hops=70),
    "b": Bounds(files=45),
    "c": Bounds(files=30, gets=1),
    "d": Bounds(adds=10, decisions=5, lists=1, writes=1),
}


@dataclass(slots=True)
class Walk:
    """The calls and requests of one walk. `calls` has the key `file:function`, in the order of first calls."""

    calls: Counter[str] = field(default_factory=Counter)
    hops: int = 0
    gets: int = 0
    lists: int = 0
    writes: int = 0
    watches: int = 0
    _turn: set[tuple[str, str]] = field(default_factory=set)
    _last: str = ""

    @property
    def files(self) -> list[str]:
        """The files, in the order in which the walk entered them."""
        return list(dict.fromkeys(_file(function) for function in self.calls))

    @property
    def back(self) -> int:
        """Hops into a file that the walk had entered before."""
        return self.hops - len(self.files)

    def count(self, name: str) -> int:
        """Return a count by its column's name."""
        match name:
            case "files":
                return len(self.files)
            case "adds":
                return sum(n for function, n in self.calls.items() if function.endswith(":WorkQueue.add"))
            case "decisions":
                return sum(n for function, n in self.calls.items() if function.endswith(":decide"))
            case _:
                return int(getattr(self, name))

    def missed(self, bounds: Bounds) -> list[str]:
        """Return the names of the counts that are over their bounds."""
        return [name for name, most in bounds.items() if self.count(name) > most]

    @contextmanager
    def observed(self, here: str) -> Iterator[None]:
        """Count calls, and requests to the simulated API servers; `here` is the local member's name."""
        from tests.sim.cluster.apiserver import ApiServer

        answer, watch = ApiServer.answer, ApiServer.watch

        def counting_answer(
            server: ApiServer, method: str, path: str, body: bytes | None, *, who: str, accept: str = ""
        ) -> Answer:
            self._request(method, path, is_here=server.name == here)
            return answer(server, method, path, body, who=who, accept=accept)

        def counting_watch(server: ApiServer, path: str, **options: Any) -> Watch | Answer:
            self._request("GET", path, is_here=server.name == here)
            return watch(server, path, **options)

        with (
            mock.patch.object(ApiServer, "answer", counting_answer),
            mock.patch.object(ApiServer, "watch", counting_watch),
        ):
            sys.setprofile(self._profile)
            try:
                yield
            finally:
                sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        function = f"{code.co_filename[len(PACKAGE) :]}:{code.co_qualname}"
        self.calls[function] += 1
        if _is_first_of_turn(frame):
            self._turn.clear()
            self._last = ""
        if _file(function) != _file(self._last):
            hop = (self._last, function)
            self.hops += hop not in self._turn
            self._turn.add(hop)
        self._last = function

    def _request(self, method: str, path: str, *, is_here: bool) -> None:
        from tests.sim.cluster.refusal import Refusal
        from tests.sim.cluster.request import parse

        try:
            request = parse(path)
        except (Refusal, IndexError):  # a document about the server
            return
        if method != "GET":
            self.writes += is_here and "dryRun" not in request.query
        elif not is_here:
            self.watches += "watch" in request.query
            self.gets += bool(request.key.name)
            is_page = "continue" in request.query
            is_resumed = "watch" in request.query and "sendInitialEvents" not in request.query
            self.lists += not (request.key.name or is_page or is_resumed)


def _file(function: str) -> str:
    return function.partition(":")[0]


def _is_first_of_turn(frame: FrameType) -> bool:
    """Return whether no function of the package is among the callers."""
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
        caller = caller.f_back
    return caller is None


async def _walk(group: SimGroup, change: Callable[[], object], is_over: Callable[[Walk], object]) -> tuple[Walk, Walk]:
    """Make the change; return the walk until it is over, and the one from there until the group rests."""
    here, peer = group.members
    await peer.stop()
    await asyncio.sleep(REST_S)
    walk, after = Walk(), Walk()
    with walk.observed(here.name):
        change()
        async with asyncio.timeout(TIMEOUT_S):
            while not is_over(walk):  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(POLL_S)
    with after.observed(here.name):
        await asyncio.sleep(REST_S)
    return walk, after


async def _create(group: SimGroup) -> tuple[Walk, Walk]:
    await _join(group)
    here, peer = group.members
    return await _walk(group, lambda: peer.create(_secret("one")), lambda _: _has_copy(here))


async def _engage(group: SimGroup) -> tuple[Walk, Walk]:
    from tests.sim.cluster.group import SECRET, hand_over, rule

    group.start()
    here, peer = group.members
    here.create(rule("all", SECRET))
    await group.settle()
    return await _walk(group, lambda: hand_over(peer, here), lambda walk: walk.watches)


async def _delete(group: SimGroup) -> tuple[Walk, Walk]:
    await _join(group)
    here, peer = group.members
    peer.create(_secret("one"))
    await group.settle()
    assert _has_copy(here)
    change = functools.partial(peer.delete, "Secret", "one", namespace="default")
    return await _walk(group, change, lambda _: not _has_copy(here))


async def _edit(group: SimGroup) -> tuple[Walk, Walk]:
    from tests.sim.cluster.group import SECRET, rule

    await _join(group, rule("many", SECRET, _entry("many")), rule("one", SECRET, _entry("one")))
    here, peer = group.members
    for number in range(BESIDE):
        peer.create(_secret(f"many-{number}", of="many"))
    peer.create(_secret("one", of="one"))
    await group.settle()
    assert _has_copy(here)
    edited = rule("one", SECRET, {**_entry("one"), "mutations": {"labels": {"add": {"edited": "yes"}}}})
    return await _walk(group, lambda: here.apply(edited), lambda _: _has_copy(here, label="edited"))


async def _join(group: SimGroup, *rules: dict[str, Any]) -> None:
    from tests.sim.cluster.group import SECRET, rule

    await group.join()
    for made in rules or (rule("all", SECRET),):
        group.members[0].create(made)
    await group.settle()


def _has_copy(here: Member, *, label: str = "") -> bool:
    found = here.find("Secret", "one", namespace="default")
    return found is not None and (not label or label in found["metadata"]["labels"])


def _secret(name: str, *, of: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"of": of}}
    return {"kind": "Secret", "metadata": metadata, "data": {"key": "dmFsdWU="}}


def _entry(of: str) -> dict[str, Any]:
    return {"match": [{"labels": [{"matchLabels": {"of": of}}]}]}


WALKS: Final[Mapping[str, Callable[[SimGroup], Awaitable[tuple[Walk, Walk]]]]] = {
    "a": _create,
    "b": _engage,
    "c": _delete,
    "d": _edit,
}
TITLES: Final = {
    "a": "a Secret is created at the peer -> create here",
    "b": "Cluster and Secret carried here -> peer watched",
    "c": "the owner deletes -> the copy is deleted",
    "d": f"a rule for 1 is edited beside one for {BESIDE}",
}


def measure(name: str) -> tuple[Walk, Walk]:
    """Return one walk, and what followed it until the group rested."""
    from tests.sim.cluster.group import simulate

    return simulate(WALKS[name], n=2)


def main(options: argparse.Namespace) -> int:
    """Measure and print the walks."""
    walks = {name: measure(name) for name in options.walks or WALKS}
    columns = (*Bounds.__slots__[:2], "back", *Bounds.__slots__[2:])
    width = max(map(len, TITLES.values())) + 4
    print(f"{'':{width}}" + "".join(f"{column:>11}" for column in columns) + "  to reach")
    for name, (walk, after) in walks.items():
        counts = "".join(f"{walk.count(column):>11,}" for column in columns)
        missed = walk.missed(BOUNDS[name])
        print(f"{f'({name}) {TITLES[name]}':{width}}{counts}  {BOUNDS[name]}{' MISSED' if missed else ''}")
        if name == "d":
            late = {c: walk.count(c) + after.count(c) for c in ("adds", "decisions", "gets", "lists", "writes")}
            counts = "".join(f"{late.get(column, ''):>11}" for column in columns)
            print(f"{'    the same until the group rests':{width}}{counts}")
    for name, (walk, _) in walks.items():
        if options.files:
            print(f"\n({name}) {TITLES[name]}")
            print("\n".join(f"  {file}" for file in walk.files))
        if options.calls:
            print(f"\n({name}) calls of {options.calls}")
            found = [(n, function) for function, n in walk.calls.items() if fnmatch.fnmatch(function, options.calls)]
            print("\n".join(f"{n:>8,}  {function}" for n, function in found) or "    none")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    assert __doc__ is not None
    made = argparse.ArgumentParser(
        prog="hack/walks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("walks", nargs="*", choices=[*WALKS, []], metavar="WALK", help="a, b, c or d (all)")
    made.add_argument("--files", action="store_true", help="print the files in the order in which a walk enters them")
    made.add_argument("--calls", metavar="PATTERN", help="print how often functions were called, as '*:*Queue.add'")
    return made


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
