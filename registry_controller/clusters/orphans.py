"""Finds the kinds of orphans: copies that may have to be deleted although no rule writes their kind any more (W3).

So is a copy that alone shows that its rule was deleted here. They are searched in the cluster, by the label of their
owner, because rules may have changed while no daemon ran. They are searched again from time to time, because a backup
tool may restore a copy of a kind that is not watched.

Law: a kind is watched for as long as it has orphans, and beside other replicas for a minute after rules write it no
longer: one that reads of that later may make a copy again. Where it may not be read in the whole cluster, its watches
cover the daemon's namespace, and those in which rules have written since the start. A watch of the whole cluster stays
beside them while copies in other namespaces are known: a refusal does not show that they are gone. A search that is
refused is repeated, soon at first, and more rarely the longer that lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping, Set
from typing import Final, NamedTuple, NoReturn

from registry_controller.api import meta
from registry_controller.api.errors import Forbidden, RegistryError
from registry_controller.api.meta import GVK, GVR
from registry_controller.api.provenance import Provenance
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.cache.copy_index import CopyIndex
from registry_controller.cache.local_cache import LocalCache
from registry_controller.core.backoff import backoff_s
from registry_controller.core.decision.marks import Binding, Marks, read_marks
from registry_controller.kube.connect import Reader
from registry_controller.kube.discover import Discovery
from registry_controller.kube.listing import list_objects
from registry_controller.report.logs import get_logger
from registry_controller.watch.retry import until_answered

log = get_logger(__name__)

_PAUSES_S: Final = (5.0, 30.0)
"""After a change of the served kinds: an API server serves a new kind a little late."""
_SPACING_S: Final = 2.0  # so that a burst of changes is one look
_RETRY_S: Final = 45.0  # less than a minute, jitter apart: it is one list a kind
SEARCH_PERIOD_S: Final = 600.0
"""The interval between searches: copies may have been restored, and rights granted."""
_OTHERS_S: Final = 60.0
"""For how long another replica may make copies by a rule that was changed: it reads of that, or ends."""
_MOST_NAMESPACES: Final = 32  # in which a kind is looked for on its own

_What = tuple[str, str]
"""A group and a kind: all versions have the same objects."""

COPIES: Final = Selection(labels=meta.OWNER)
"""All objects with the owner's label."""


class _Refusal(NamedTuple):
    """The refusals of a kind in a row, in the whole cluster; `due_s` of the loop's time is when to search it again."""

    times: int
    due_s: float


class OrphanFinder:
    """The kinds that have orphans, or must be searched. `found_more` is called when their watches must differ.

    `namespace` is the daemon's. `is_complete` is true once every kind was searched. `served` are the kinds that can be
    written here, in all versions; None before they are known.

    `is_needed` returns true if a copy must be known under any policy. Its rule is here, so it may give the copy of a
    source another name, its policy may change, or its source may be deleted. Or its rule was deleted here, and only the
    copy shows that. `has_others` returns whether other replicas of this daemon run, `now_s` the time in seconds.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        discovery: Discovery,
        copies: CopyIndex,
        namespace: str,
        is_needed: Callable[[Provenance], bool],
        found_more: Callable[[], None],
        has_others: Callable[[], bool],
        now_s: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._discovery = discovery
        self._copies = copies
        self._namespace = namespace
        self._is_needed = is_needed
        self._found_more = found_more
        self._has_others = has_others
        self._now_s = now_s
        self._found: set[_What] = set()
        self._until_s: dict[_What, float] = {}
        """Until when another replica may make copies of a kind that rules write no longer."""
        self._known: dict[_What, GVK] = {}
        self._namespaced: set[_What] = set()
        self._narrow: set[_What] = set()
        self._refused: dict[_What, _Refusal] = {}
        self._began_s = 0.0  # the last search
        self._written: dict[_What, dict[str, None]] = {}
        self._wanted: Mapping[GVK, frozenset[Selection]] = {}
        self.is_complete = False
        self.served: frozenset[GVK] | None = None
        self._poked = asyncio.Event()

    def on_kinds_changed(self) -> None:
        """Note that other kinds may be served here."""
        self._poked.set()

    def on_local_status_changed(self, cache: LocalCache) -> None:
        """Note that a cache may or may not read all of its kind now, or was written where nothing watches."""
        what = (cache.kind.group, cache.kind.kind)
        if cache.has_unseen_writes:
            cache.has_unseen_writes = False
            self._search(what, cache.kind)
            self._found_more()
        refused = [stream.selection for stream in cache.streams.values() if isinstance(stream.error, Forbidden)]
        if any(not selection.namespace for selection in refused):
            self._note_narrow(what, is_narrow=what in self._namespaced)
        elif any(not place.namespace and stream.is_complete for place, stream in cache.streams.items()):
            self._note_narrow(what, is_narrow=False)  # the right was granted since the search
        if refused and what in self._found:
            self._found_more()

    def on_left(self) -> None:
        """Search the copies of the core rules again: this cluster has left, so they may go."""
        for kind in (meta.CLUSTER, meta.SECRET, meta.RULE):
            self._search((kind.group, kind.kind), kind)
        self._found_more()

    async def find(self) -> NoReturn:
        """Search every kind that we may list here: in each period, and if it was not served, or was not listed."""
        searched: set[GVK] = set()
        loop = asyncio.get_running_loop()
        again_s = loop.time() + SEARCH_PERIOD_S
        while True:
            pauses_s = iter(_PAUSES_S)
            while not self._poked.is_set():
                if loop.time() >= again_s:
                    searched, again_s = set(), loop.time() + SEARCH_PERIOD_S
                is_whole = await self._look_through(searched)
                self.is_complete = True
                refused_s = (refusal.due_s for refusal in self._refused.values() if refusal.due_s > self._began_s)
                due_s = max(0.0, min((again_s, *refused_s)) - loop.time())
                pause_s = min(due_s, next(pauses_s, due_s), due_s if is_whole else _RETRY_S)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._poked.wait()
            await asyncio.sleep(_SPACING_S)
            self._poked.clear()

    async def _look_through(self, searched: set[GVK]) -> bool:
        """Search the kinds that are not in `searched`, and add them; return true if no list failed but for a right."""
        self._began_s = asyncio.get_running_loop().time()
        served = await until_answered(self._discovery.list_writable, what="list the kinds that are served here")
        self._known |= {(kind.group, kind.kind): kind for kind, _ in reversed(served.kinds)}
        self._namespaced = {(kind.group, kind.kind) for kind, gvr in served.kinds if gvr.namespaced}
        if served.versions != self.served:
            self.served = served.versions
            self._found_more()
        searched &= {kind for kind, _ in served.kinds if not self._is_due(kind)}
        is_whole = served.is_whole
        for kind, gvr in served.kinds:
            if kind in searched:
                continue
            try:
                if self._is_shown(kind) or await self._look(kind, gvr):
                    self._refused.pop((kind.group, kind.kind), None)
                else:
                    self._note_refused((kind.group, kind.kind))
                searched.add(kind)
            except RegistryError as error:
                log.debug("cannot search a kind for orphans", kind=str(kind), error=str(error))
                is_whole = False
        return is_whole

    def _is_shown(self, kind: GVK) -> bool:
        """Return true if watches show every copy of a kind in the whole cluster."""
        cache = self._copies.cache_of(kind.group, kind.kind)
        return cache is not None and any(_is_complete(cache, place) for place in (EVERYTHING, COPIES))

    def _is_due(self, kind: GVK) -> bool:
        """Return true if the search of a kind was refused, and is to be repeated now."""
        refusal = self._refused.get((kind.group, kind.kind))
        return refusal is not None and refusal.due_s <= self._began_s

    def _note_refused(self, what: _What) -> None:
        """Note that the search of a kind was refused: it is repeated after a pause, which grows with each refusal."""
        times, _ = self._refused.get(what, (0, 0.0))
        pause_s = backoff_s(times, base=_RETRY_S, cap=SEARCH_PERIOD_S, chance=1.0)
        self._refused[what] = _Refusal(times + 1, self._began_s + pause_s)

    async def _look(self, kind: GVK, gvr: GVR) -> bool:
        """Search a kind where it may be read; return true if that is the whole cluster."""
        what, is_whole = (kind.group, kind.kind), True
        try:
            has_some = await self._has_some(kind, gvr, COPIES)
        except Forbidden:
            has_some = is_whole = False
        self._note_narrow(what, is_narrow=not is_whole and gvr.namespaced)
        for namespace in sorted(self._namespaces(what, self._asked(what))) if what in self._narrow else ():
            with contextlib.suppress(Forbidden):
                has_some = has_some or await self._has_some(kind, gvr, COPIES._replace(namespace=namespace))
        if has_some:
            self._found.add(what)
            self._found_more()
        return is_whole

    def _note_narrow(self, what: _What, *, is_narrow: bool) -> None:
        if is_narrow != (what in self._narrow):
            self._narrow ^= {what}
            self._found_more()

    def with_kinds(self, wanted: Mapping[GVK, frozenset[Selection]]) -> Mapping[GVK, frozenset[Selection]]:
        """Add to the places that rules write those that must be watched for orphans.

        Every kind is given in one version: that of the rules, or else the one that is known to be served.
        """
        self._search_dropped(wanted)
        caches = {(cache.kind.group, cache.kind.kind): cache for cache in self._copies.all_caches()}
        kinds = {(kind.group, kind.kind): (kind, places) for kind, places in wanted.items()}
        for what in sorted({*self._found, *caches}):
            cache = caches.get(what)
            known = self._known.get(what) or (cache.kind if cache is not None else None)
            assert known is not None
            kind, places = kinds.get(what, (known, frozenset()))
            shown_by = self._shown_by(what, places, cache=cache)
            is_left = cache is not None and self._has_leftovers(cache, {place.namespace for place in places})
            if cache is not None and not is_left:
                self._end_search(what, cache, shown_by)
            if is_left or what in self._found:
                kinds[what] = (kind, places | shown_by)
        return dict(kinds.values())

    def _end_search(self, what: _What, cache: LocalCache, shown_by: frozenset[Selection]) -> None:
        """End a search whose watches are complete; what may not be read is searched again later."""
        if self._now_s() < self._until_s.get(what, -math.inf):
            return
        self._until_s.pop(what, None)
        unheard = [selection for selection in shown_by if not _is_complete(cache, selection)]
        if what in self._found and all(place.namespace and _is_refused(cache, place) for place in unheard):
            self._found.discard(what)
            if what in self._narrow and what not in self._refused:
                self._note_refused(what)
                self._poked.set()

    def _asked(self, what: _What) -> frozenset[Selection]:
        """Return the places of a kind that rules write."""
        asked = (places for kind, places in self._wanted.items() if (kind.group, kind.kind) == what)
        return frozenset[Selection]().union(*asked)

    def _shown_by(self, what: _What, places: frozenset[Selection], *, cache: LocalCache | None) -> frozenset[Selection]:
        """Return places that show every copy of a kind that we may read: the places of rules, or the owner's label.

        Known copies elsewhere are kept by a watch of the whole cluster, which shows when it may be read again.
        """
        namespaces = self._namespaces(what, places)
        if cache is not None and "" not in namespaces and self._has_leftovers(cache, namespaces):
            namespaces |= {""}
        in_whole = (Selection(namespace=namespace) for namespace in namespaces)
        return frozenset(whole if whole in places else COPIES._replace(namespace=whole.namespace) for whole in in_whole)

    def _namespaces(self, what: _What, places: frozenset[Selection]) -> set[str]:
        """Return the namespaces that are searched one by one where a kind is narrow; else one, empty for all."""
        if what not in self._narrow:
            return {""}
        asked = (place.namespace for place in places if place.namespace)
        return {self._namespace, *self._written.get(what, ()), *asked}

    def _search_dropped(self, wanted: Mapping[GVK, frozenset[Selection]]) -> None:
        """Search the places that rules write no longer: the event of a copy there may still be under way."""
        now = {(kind.group, kind.kind): places for kind, places in wanted.items()}
        for kind, places in self._wanted.items():
            what = (kind.group, kind.kind)
            if not places <= now.get(what, frozenset()):
                self._search(what, kind)
                if self._has_others():
                    self._until_s[what] = self._now_s() + _OTHERS_S
                written = self._written.setdefault(what, {})
                written |= {place.namespace: None for place in sorted(places) if place.namespace}
                for namespace in list(written)[:-_MOST_NAMESPACES]:
                    del written[namespace]
        self._wanted = wanted

    def _search(self, what: _What, kind: GVK) -> None:
        self._found.add(what)
        self._known.setdefault(what, kind)

    def _has_leftovers(self, cache: LocalCache, namespaces: Set[str]) -> bool:
        """Return true if a copy outside these namespaces may have to be deleted."""
        elsewhere = cache.namespaces.keys() - namespaces
        return bool(elsewhere) and any(
            key.namespace in elsewhere and self._may_go(record.marks) for key, record in cache.records.items()
        )

    async def _has_some(self, kind: GVK, gvr: GVR, selection: Selection) -> bool:
        cache = self._copies.cache_of(kind.group, kind.kind)
        async for page in list_objects(self._reader, gvr, selection, kind=kind):
            for obj in page.items:
                if cache is not None and obj.key.namespace in cache.shown:
                    continue
                target = meta.Target(kind.group, kind.kind, obj.key.namespace, obj.key.name)
                if self._may_go(read_marks(obj.annotations, of=target)):
                    return True
        return False

    def _may_go(self, marks: Marks) -> bool:
        """Return true if a copy may have to be deleted, now or once its marks of a later version can be read."""
        provenance = marks.provenance
        if marks.binding is Binding.UNREADABLE:
            return marks.is_copy
        return provenance is not None and (provenance.policy == "Delete" or self._is_needed(provenance))


def _is_complete(cache: LocalCache, selection: Selection) -> bool:
    stream = cache.streams.get(selection)
    return stream is not None and stream.is_complete


def _is_refused(cache: LocalCache, selection: Selection) -> bool:
    stream = cache.streams.get(selection)
    return stream is not None and isinstance(stream.error, Forbidden)
