"""Objects that a server offers as its own: whose they claim to be, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from registry_controller.api import meta
from tests.hostile.cases import HONEST, NATIVE, Case, Copy, config_map
from tests.hostile.server.deeds import annotated, replies, says, tells, watches
from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import Manifest, objects, parse
from tests.hostile.shown import MAPS, Claim, Sight, holds, stays

_THING: Final = "thing-{}"


def _is_absent(sight: Sight) -> None:
    name = _THING.format(sight.server.name)
    assert not any(found["metadata"]["name"] == name for found in sight.home.maps()), name


def _steady_stays(sight: Sight) -> None:
    found = sight.home.find("steady") or {}
    assert found["metadata"]["annotations"][meta.OWNER] == sight.home.honest.uid, found


def _native_stays(sight: Sight) -> None:
    found = sight.home.find(NATIVE) or {}
    assert (found["data"], found["metadata"].get("annotations")) == ({"text": "home"}, None), found


_NOT_COPIED: Final = holds("is not copied: only the owner is a source", _is_absent)
_REFUSED: Final = (
    holds("is refused by the API server here", _is_absent), stays("the other objects are copied")
)  # fmt: skip
_LEFT: Final = holds("is not copied", _is_absent)
_PLAIN: Final = stays("is copied as its own, without it")


def _offers(
    does: str,
    claims: Claim | tuple[Claim, ...],
    make: Callable[[Stranger], Manifest],
    *said: str,
    copied: tuple[Copy, ...] = (),
) -> Case:
    """One object beside the honest one."""
    found = claims if isinstance(claims, tuple) else (claims,)
    return Case(does, found, lambda server: server.put(make(server)), said=said, copied=(*HONEST, *copied))


def _thing(server: Stranger) -> Manifest:
    return config_map(_THING.format(server.name))


def _marked(mark: Callable[[Stranger], dict[str, str]]) -> Callable[[Stranger], Manifest]:
    return lambda server: annotated(_thing(server), mark(server))


def _changed(*changes: tuple[str, Any]) -> Callable[[Stranger], Manifest]:
    return lambda server: says(_thing(server), *changes)


def _provenance(server: Stranger) -> dict[str, str]:
    """Say, in the daemon's own words, that the honest peer's rule made this very object."""
    name = _THING.format(server.name)
    source = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "default", "name": name, "uid": "u",
              "creationTimestamp": "2020-01-01T00:00:00Z", "resourceVersion": "1"}  # fmt: skip
    found = {"owner": server.victims.honest_uid, "rule": "maps", "ruleOwner": "", "policy": "Delete", "source": source}
    place = {"group": "", "kind": "ConfigMap", "namespace": "default", "name": name}
    return {meta.PROVENANCE: json.dumps({**found, "copy": place})}


def _nested(depth: int) -> Any:
    found: Any = "x"
    for _ in range(depth):
        found = [found]
    return found


def _in_a_stream(does: str, words: str, *states: tuple[str, list[tuple[str, Any]]], last: str) -> Case:
    """Beside the honest object one state after the other under one name: a text, and other changes.

    The text of the copy is `last` in the end.
    """

    def arm(server: Stranger) -> None:
        found = next(objects("ConfigMap", [_THING.format(server.name)], data={"text": ""}))
        told = [says(found, ("data.text", text), *changes) for text, changes in states]
        lines = [json.dumps({"type": "MODIFIED", "object": found}).encode() + b"\n" for found in told]
        place = parse(MAPS)
        assert place is not None
        deed = watches(initial=server.world.find(place), then=tells(lines))
        server.order(deed, MAPS, when=lambda ask: ask.is_watch)
        # A copy that was made of a higher revision is brought back only once the owner answers with the last state.
        name = found["metadata"]["name"]
        server.order(replies(told[-1]), when=lambda ask: ask.path.endswith(f"/configmaps/{name}"))

    return Case(does, (stays(words),), arm, copied=(*HONEST, Copy(_THING, {"text": last})))


CLAIMS: Final = (
    _offers(
        "marks an object as another member's",
        _NOT_COPIED,
        _marked(lambda server: {meta.OWNER: server.victims.honest_uid}),
    ),
    _offers(
        "marks an object as the local cluster's own",
        _NOT_COPIED,
        _marked(lambda server: {meta.OWNER: server.victims.home_uid}),
    ),
    _offers(
        "marks an object as an unknown cluster's",
        _NOT_COPIED,
        _marked(lambda server: {meta.OWNER: "nobody"}),
    ),
    _offers(
        "marks an object with an owner's ID of 1 MiB",
        _NOT_COPIED,
        _marked(lambda server: {meta.OWNER: "x" * 1024 * 1024}),
    ),
    _offers("gives an object the provenance of another member's copy", _NOT_COPIED, _marked(_provenance)),
    _offers(
        "gives an object provenance that is garbage",
        _PLAIN,
        _marked(lambda server: {meta.PROVENANCE: "{" * 1000}),
        copied=(Copy(_THING),),
    ),
    _offers(
        "gives an object provenance of 1 MiB",
        _PLAIN,
        _marked(lambda server: {meta.PROVENANCE: "x" * 1024 * 1024}),
        copied=(Copy(_THING),),
    ),
    _offers(
        "holds an object of a name that was made here",
        holds("what was made here stays as it is", _native_stays),
        lambda server: config_map(NATIVE),
        "an object of that name was made here; it is never overwritten",
    ),
    _offers(
        "holds an object of another member's name",
        holds("the older one stays", _steady_stays),
        lambda server: says(config_map("steady"), ("metadata.creationTimestamp", "2026-06-01T00:00:00Z")),
        "an older object, of cluster",
    ),
    _offers(
        "gives an object finalizers and owners",
        stays("is copied without them"),
        _changed(
            ("metadata.finalizers", ["a.test/b"]),
            (
                "metadata.ownerReferences",
                [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x", "blockOwnerDeletion": True}],
            ),
        ),
        copied=(Copy(_THING),),
    ),
)

CONTENTS: Final = (
    _offers(
        "offers an object that its kind does not allow", _REFUSED, _changed(("data.text", 5)), "create configmaps.v1"
    ),
    _offers(
        "offers an object of 2 MiB", _REFUSED, _changed(("data.text", "x" * 2 * 1024 * 1024)), "create configmaps.v1"
    ),
    _offers(
        "offers lists 300 deep",
        _LEFT,
        _changed(("data.text", _nested(300))),
        "cannot be decoded: too deeply nested",
    ),
    _offers(
        "offers 300,000 empty lists",
        _LEFT,
        _changed(("data.text", [[]] * 300_000)),
        "cannot be decoded: too deeply nested, too large",
    ),
    _offers("offers a number of 400 digits", _LEFT, _changed(("data.text", 10**400)), "cannot be decoded"),
    _in_a_stream(
        "changes the uid with each event",
        "is copied as it is last",
        *((f"{n}", [("metadata.uid", f"u{n}"), ("metadata.resourceVersion", f"{5000 + n}")]) for n in range(50)),
        last="49",
    ),
    _in_a_stream("gives an object no uid", "is copied", ("x", [("metadata.uid", "")]), last="x"),
    _in_a_stream(
        "gives objects revisions that are no numbers",
        "is copied",  # as it was first, or is last: revisions are what states are told apart by
        ("x", [("metadata.resourceVersion", "yesterday")]),
        ("x", [("metadata.resourceVersion", "-5")]),
        ("x", [("metadata.resourceVersion", str(2**200))]),
        last="x",
    ),
    _in_a_stream(
        "gives an object the last revision that there is, and then an older one",
        "is copied as it is last: a server may have gone back (O3)",
        ("first", [("metadata.resourceVersion", str(2**63 - 1))]),
        ("last", [("metadata.resourceVersion", "5000")]),
        last="last",
    ),
    _in_a_stream(
        "gives an object revision 2^63, which is not valid",
        "is copied as it is last",
        ("first", [("metadata.resourceVersion", str(2**63))]),
        ("last", [("metadata.resourceVersion", "5000")]),
        last="last",
    ),
)
