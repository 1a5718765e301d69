"""The report of a daemon about itself, its peers, and the copies of each rule, as its Lease holds it.

It is a JSON object. Its format has a number; without one, it is format 1. A version that only adds a field keeps the
number, and an earlier version ignores that field. A later format is not read. It contains no data of objects.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from registry_controller.api.formats import FORMATS
from registry_controller.api.jsontext import is_later, read_object
from registry_controller.api.meta import ClusterUID

FORMAT: Final = 1

_MOST: Final = 128 * 1024  # bytes; the annotations of an object have twice as many
_MOST_PEERS: Final = 200
MOST_ENTRIES: Final = 1500
"""Rules, and their owners, together: a report has no more."""
_MOST_TEXT: Final = 300  # bytes


@dataclass(frozen=True, slots=True)
class DefinitionReport:
    """A CustomResourceDefinition of the registry: its kind, the time of its creation (RFC 3339), and dropped fields.

    `drops` has fields of the daemon's release that the definition does not know; it is empty for a current one.
    """

    kind: str
    created: str = ""
    drops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PeerReport:
    """A Cluster as its daemon's cluster finds it.

    `state` is the `status.state` of the Cluster (`Ready`, `Failed`, `Disabled`, ...), empty before the first answer.
    `reason` is the message for people, empty for a peer that is `Ready`. `since` is the time of the last change of
    the state, and `last_contact` that of the last answer (RFC 3339, UTC); both are empty where they are not known.
    """

    name: str
    cluster_id: ClusterUID
    state: str = ""
    reason: str = ""
    since: str = ""
    last_contact: str = ""
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """The number of copies here of one rule and owner, by their state.

    `in_step` copies are as their source. `behind` ones wait for a write, `held` ones for proof or permission.
    `skipped` ones are left as they are on purpose. `owner` is the name of the owner's Cluster, or its ID.
    """

    owner: str
    in_step: int = 0
    behind: int = 0
    failing: int = 0
    held: int = 0
    conflicting: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class RuleReport:
    """A rule: whether it is in step, and its copies by owner.

    `ready` is the status of its condition `Ready` (`True`, `False` or `Unknown`), with `reason` and `message`.
    """

    name: str
    ready: str = "Unknown"
    reason: str = ""
    message: str = ""
    owners: tuple[CopyCounts, ...] = ()


@dataclass(frozen=True, slots=True)
class DaemonReport:
    """The report of one daemon.

    `started` is the start of the process (RFC 3339, UTC). `formats` are those that the daemon writes for other daemons.
    `peers` has the local Cluster, too. `rules_left_out` is the number of rules that the Lease has no room for; rules
    that are not in step come first. `rules_total` and `rules_ready` count all rules.
    """

    version: str
    started: str
    cluster_name: str
    cluster_id: ClusterUID
    formats: Mapping[str, int] = field(default_factory=lambda: FORMATS)
    definitions: tuple[DefinitionReport, ...] = ()
    peers: tuple[PeerReport, ...] = ()
    rules: tuple[RuleReport, ...] = ()
    rules_total: int = 0
    rules_ready: int = 0
    rules_left_out: int = 0


def write_report(report: DaemonReport) -> str:
    """Return the JSON text of a report, of at most 128 KiB: texts are cut, and rules that are in step go first."""
    peers = sorted(report.peers, key=lambda peer: (peer.state == "Ready", peer.name))[:_MOST_PEERS]
    rules = sorted(report.rules, key=lambda rule: (rule.ready == "True", rule.name))
    entries = list(itertools.accumulate(1 + len(rule.owners[:_MOST_PEERS]) for rule in rules))
    kept = tuple(map(_cut_rule, rules[: sum(count <= MOST_ENTRIES for count in entries)]))
    whole = dataclasses.replace(report, peers=tuple(map(_cut_peer, peers)))
    while True:
        left_out = report.rules_left_out + len(rules) - len(kept)
        text = _write(dataclasses.replace(whole, rules=kept, rules_left_out=left_out))
        if len(text) <= _MOST or not kept:
            return text.decode()
        kept = kept[: len(kept) * 3 // 4]


def _write(report: DaemonReport) -> bytes:
    return orjson.dumps({"format": FORMAT, **_compact(dataclasses.asdict(report))}, option=orjson.OPT_SORT_KEYS)


def _compact(found: Any) -> Any:
    """Return the fields in the spelling of Kubernetes, without those that are empty."""
    if isinstance(found, dict):
        return {_spell(key): _compact(value) for key, value in found.items() if value}
    return [_compact(item) for item in found] if isinstance(found, list | tuple) else found


def _spell(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join("ID" if part == "id" else part.capitalize() for part in others)


def _cut_peer(peer: PeerReport) -> PeerReport:
    return dataclasses.replace(peer, reason=_cut(peer.reason))


def _cut_rule(rule: RuleReport) -> RuleReport:
    return dataclasses.replace(rule, message=_cut(rule.message), owners=rule.owners[:_MOST_PEERS])


def _cut(text: str) -> str:
    """Cut a text to 300 bytes of UTF-8."""
    found = text.encode(errors="replace")
    return found.decode() if len(found) <= _MOST_TEXT else f"{found[: _MOST_TEXT - 3].decode(errors='ignore')}..."


def read_report(text: str) -> DaemonReport | None:
    """Parse the JSON text of a report; fields that are unknown or of another type are ignored. None for none."""
    found = read_object(text, most=2 * _MOST)
    if not found or is_later(found, than=FORMAT):
        return None
    formats = found.get("formats")
    return DaemonReport(
        version=_text(found, "version"),
        started=_text(found, "started"),
        cluster_name=_text(found, "clusterName"),
        cluster_id=ClusterUID(_text(found, "clusterID")),
        formats={name: n for name, n in formats.items() if _is_count(n)} if isinstance(formats, dict) else {},
        definitions=tuple(
            DefinitionReport(_text(item, "kind"), _text(item, "created"), _texts(item, "drops"))
            for item in _items(found, "definitions")
        ),
        peers=tuple(map(_read_peer, _items(found, "peers"))),
        rules=tuple(map(_read_rule, _items(found, "rules"))),
        rules_total=_count(found, "rulesTotal"),
        rules_ready=_count(found, "rulesReady"),
        rules_left_out=_count(found, "rulesLeftOut"),
    )


def _read_peer(item: Mapping[str, Any]) -> PeerReport:
    return PeerReport(
        name=_text(item, "name"),
        cluster_id=ClusterUID(_text(item, "clusterID")),
        state=_text(item, "state"),
        reason=_text(item, "reason"),
        since=_text(item, "since"),
        last_contact=_text(item, "lastContact"),
        is_local=item.get("isLocal") is True,
    )


def _read_rule(item: Mapping[str, Any]) -> RuleReport:
    states = ("inStep", "behind", "failing", "held", "conflicting", "skipped")
    owners = tuple(
        CopyCounts(_text(owner, "owner"), *(_count(owner, state) for state in states))
        for owner in _items(item, "owners")
    )
    ready = _text(item, "ready") or "Unknown"
    return RuleReport(_text(item, "name"), ready, _text(item, "reason"), _text(item, "message"), owners)


def _items(found: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    items = found.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _text(found: Mapping[str, Any], key: str) -> str:
    text = found.get(key)
    return text if isinstance(text, str) else ""


def _texts(found: Mapping[str, Any], key: str) -> tuple[str, ...]:
    items = found.get(key)
    return tuple(item for item in items if isinstance(item, str)) if isinstance(items, list) else ()


def _count(found: Mapping[str, Any], key: str) -> int:
    number = found.get(key)
    return number if isinstance(number, int) and _is_count(number) else 0


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0
