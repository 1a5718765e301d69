"""Objects that a server offers as its own: whose they claim to be, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from registry_controller.api import meta
from tests.hostile.cases import GOOD, NATIVE, Case, config_map
from tests.hostile.server.deeds import annotated, says, tells, watches
from tests.hostile.server.stranger import Stranger
from tests.hostile.server.world import Manifest, objects, parse
from tests.hostile.tables.lists import MAPS

_THING: Final = "thing-{}"
_NOT_COPIED: Final = "is not copied: only the owner is a source"
_REFUSED: Final = "is refused by the API server here; the others are copied"


def _offers(does: str, happens: str, make: Callable[[Stranger], Manifest], *said: str, comes: bool = False) -> Case:
    """One object beside the honest one."""
    copied = (GOOD, _THING) if comes else (GOOD,)
    return Case(does, happens, lambda server: server.put(make(server)), said, copied=copied)


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


def _in_a_stream(does: str, happens: str, *changes: list[tuple[str, Any]]) -> Case:
    """Beside the honest object one after the other under the same name, each changed in another way."""

    def arm(server: Stranger) -> None:
        told = [
            says(next(objects("ConfigMap", [_THING.format(server.name)], data={"text": "x"})), *these)
            for these in changes
        ]
        lines = [json.dumps({"type": "MODIFIED", "object": found}).encode() + b"\n" for found in told]
        place = parse(MAPS)
        assert place is not None
        deed = watches(initial=server.world.find(place), then=tells(lines))
        server.order(deed, MAPS, when=lambda ask: ask.is_watch)

    return Case(does, happens, arm, copied=(GOOD, _THING))


CLAIMS: Final = (
    _offers(
        "says that an object is another member's",
        _NOT_COPIED,
        _marked(lambda server: {meta.OWNER: server.victims.honest_uid}),
    ),
    _offers(
        "says that an object is home's own", _NOT_COPIED, _marked(lambda server: {meta.OWNER: server.victims.home_uid})
    ),
    _offers(
        "says that an object is of a cluster that nobody knows",
        _NOT_COPIED,
        _marked(lambda server: {meta.OWNER: "nobody"}),
    ),
    _offers(
        "says that an object is of a cluster with an ID of 1 MiB",
        _NOT_COPIED,
        _marked(lambda server: {meta.OWNER: "x" * 1024 * 1024}),
    ),
    _offers("gives an object the provenance of another member's copy", _NOT_COPIED, _marked(_provenance)),
    _offers(
        "gives an object provenance that is garbage",
        "is copied as its own",
        _marked(lambda server: {meta.PROVENANCE: "{" * 1000}),
        comes=True,
    ),
    _offers(
        "gives an object provenance of 1 MiB",
        "is copied as its own, without it",
        _marked(lambda server: {meta.PROVENANCE: "x" * 1024 * 1024}),
        comes=True,
    ),
    _offers(
        "holds an object of a name that was made here",
        "what was made here stays as it is",
        lambda server: config_map(NATIVE),
        "an object of that name was made here; it is never overwritten",
    ),
    _offers(
        "holds an object of another member's name",
        "the older one stays",
        lambda server: says(config_map("steady"), ("metadata.creationTimestamp", "2026-06-01T00:00:00Z")),
        "an older object, of cluster",
    ),
    _offers(
        "gives an object finalizers and owners",
        "is copied without them",
        _changed(
            ("metadata.finalizers", ["a.test/b"]),
            (
                "metadata.ownerReferences",
                [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x", "blockOwnerDeletion": True}],
            ),
        ),
        comes=True,
    ),
)

CONTENTS: Final = (
    _offers("offers what its kind does not allow", _REFUSED, _changed(("data.text", 5)), "create configmaps.v1"),
    _offers(
        "offers an object of 2 MiB", _REFUSED, _changed(("data.text", "x" * 2 * 1024 * 1024)), "create configmaps.v1"
    ),
    _offers(
        "offers lists 300 deep",
        "is not copied",
        _changed(("data.text", _nested(300))),
        "cannot be decoded: too deeply nested",
    ),
    _offers(
        "offers 300,000 empty lists",
        "is not copied, and not even decoded",
        _changed(("data.text", [[]] * 300_000)),
        "cannot be decoded: too deeply nested, too large",
    ),
    _offers("offers a number of 400 digits", "is not copied", _changed(("data.text", 10**400)), "cannot be decoded"),
    _in_a_stream(
        "changes the uid with each event",
        "is copied as it is last",
        *([("metadata.uid", f"u{number}")] for number in range(50)),
    ),
    _in_a_stream("gives an object no uid", "is copied", [("metadata.uid", "")]),
    _in_a_stream(
        "gives objects revisions that are no numbers",
        "is copied",
        [("metadata.resourceVersion", "yesterday")],
        [("metadata.resourceVersion", "-5")],
        [("metadata.resourceVersion", str(2**200))],
    ),
    _in_a_stream(
        "gives an object revision 2^63",
        "is copied; what is older is not believed later",
        [("metadata.resourceVersion", str(2**63))],
        [("metadata.resourceVersion", "5")],
    ),
)
