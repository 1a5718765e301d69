"""The tables of `status`: members by members, rules that are not in step, copies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from registry_controller.admin.group_status import Fault, FoundMember, GroupStatus, OwnerCopies, RuleAt
from registry_controller.admin.member_view import PeerDaemon, SiteView
from registry_controller.admin.objects import read_time
from registry_controller.api.cluster import State
from registry_controller.api.daemon_report import CopyCounts
from registry_controller.api.names import CORE_RULES
from registry_controller.cli.output import Cell, Table, Tone

_NONE: Final = Cell("-", Tone.MINOR)
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


class Section(NamedTuple):
    """A table with its title."""

    title: str
    table: Table


def build_sections(status: GroupStatus, *, now: datetime, is_wide: bool = False) -> Iterator[Section]:
    """Build the tables; with one cluster, one line for each member that it knows.

    The copies of the core rules are shown where some are not in step, and with `is_wide`. Of the causes of a rule
    `is_wide` has all, otherwise the first one is shown, and the number of the rest.
    """
    read = [view for view in status.views if not view.failure]
    if _is_alone(status) and read:
        yield Section(f"members, as {read[0].title} sees them", _peers_table(status, now=now))
    elif read:
        yield Section(
            "members (lines) and how they find each other (columns)", _members_table(status, now=now, is_wide=is_wide)
        )
    if rules := [at for at in status.rules if not at.is_intended or read]:
        rows: list[Sequence[str | Cell]] = [
            [
                at.viewer.title,
                at.rule.name,
                Cell(at.rule.reason or "Unknown", Tone.MINOR if at.is_intended else Tone.BAD),
                "; ".join([at.rule.message, *at.more_causes]) if is_wide else at.message,
            ]
            for at in rules
        ]
        yield Section("rules that are not in step", Table(["MEMBER", "RULE", "REASON", "MESSAGE"], rows))
    if copies := [one for one in status.copies if is_wide or not _is_plain(one)]:
        headings = ["RULE", "OWNER", "IN STEP", "BEHIND", "FAILING", "HELD", "CONFLICTING", "SKIPPED"]
        rows = [[one.rule, one.counts.owner, *_count_cells(one.counts)] for one in copies]
        yield Section("copies by rule and owner", Table(headings, rows, only_wide=frozenset({"SKIPPED"})))


def list_remarks(status: GroupStatus) -> Sequence[str]:
    """List the faults that the tables do not show in full: the whole message, or what to do."""
    return [fault.text for fault in status.faults if not _is_in_tables(fault, is_alone=_is_alone(status))]


def _is_in_tables(fault: Fault, *, is_alone: bool) -> bool:
    """Return whether the tables show a fault in full; the table of several members has no room for reasons."""
    if isinstance(fault.part, FoundMember):
        report = fault.part.report
        return report is not None and (is_alone or not report.reason)
    return isinstance(fault.part, RuleAt)


def _is_alone(status: GroupStatus) -> bool:
    return len(status.views) == 1


def _is_plain(copies: OwnerCopies) -> bool:
    """Return whether copies are of a core rule, and in step."""
    counts = copies.counts
    others = counts.behind + counts.failing + counts.held + counts.conflicting
    return copies.rule in CORE_RULES and not others


def _members_table(status: GroupStatus, *, now: datetime, is_wide: bool) -> Table:
    members = status.members
    headings = ["MEMBER", "DAEMON", "CRDS", "KUBERNETES", "RENEWED", *(member.name for member in members)]
    found: dict[str, list[FoundMember]] = {}
    for one in status.connections:
        found.setdefault(one.viewer.label, []).append(one)
    rows: list[Sequence[str | Cell]] = []
    for view in status.views:
        if view.failure or view.has_left:
            words = Cell("cannot be read" if view.failure else "has left", Tone.BAD)
            rows.append([view.title, words, _NONE, _NONE, _NONE, *([_NONE] * len(members))])
            continue
        cells = [_state_cell(one, now=now, with_contact=is_wide) for one in found.get(view.label, ())]
        rows.append([view.title, *_daemon_cells(view, now=now), *cells])
    return Table(headings, rows, only_wide=frozenset({"KUBERNETES", "RENEWED"}))


def _daemon_cells(view: SiteView, *, now: datetime) -> Sequence[str | Cell]:
    renewed = format_age(view.renewed, now)
    return [
        view.version or _NONE,
        Cell(format_age(view.definitions_since, now) or "-", Tone.BAD if view.dropped else Tone.PLAIN),
        view.server_version or _NONE,
        Cell(f"{renewed} ago" if renewed else "-", Tone.BAD if view.is_silent else Tone.PLAIN),
    ]


def _peer_cells(daemon: PeerDaemon, *, now: datetime) -> Sequence[str | Cell]:
    return [daemon.version or _NONE, format_age(daemon.definitions_since, now) or _NONE]


def _peers_table(status: GroupStatus, *, now: datetime) -> Table:
    rows: list[Sequence[str | Cell]] = []
    for one in status.connections:
        report = one.report
        if report is None:
            continue
        contact = format_age(report.last_contact, now)
        rows.append(
            [
                f"{one.member.name} (here)" if report.is_local else one.member.name,
                _state_cell(one, now=None),
                format_age(report.since, now) or _NONE,
                "here" if report.is_local else f"{contact} ago" if contact else _NONE,
                *(_daemon_cells(one.viewer, now=now)[:2] if report.is_local else _peer_cells(one.daemon, now=now)),
                report.reason,
            ]
        )
    return Table(["MEMBER", "STATE", "SINCE", "LAST CONTACT", "DAEMON", "CRDS", "REASON"], rows)


def _state_cell(one: FoundMember, *, now: datetime | None, with_contact: bool = False) -> Cell:
    """Return the state of a member, with the time since then where `now` is given, and since the last contact."""
    if one.report is None:
        return Cell("unknown", Tone.BAD)
    state = one.report.state or "no answer yet"
    since = format_age(one.report.since, now) if now is not None else ""
    contact = format_age(one.report.last_contact, now) if with_contact else ""
    text = f"{state} {since}".rstrip() + (f", contact {contact} ago" if contact else "")
    if one.report.is_local:
        text = "local" if one.is_well else f"local, {text}"
    tone = Tone.GOOD if one.is_well else Tone.WARNING if state == State.DISABLED.value else Tone.BAD
    return Cell(text, tone)


def _count_cells(counts: CopyCounts) -> Sequence[str | Cell]:
    bad = ((counts.behind, Tone.WARNING), (counts.failing, Tone.BAD), (counts.held, Tone.WARNING))
    cells = [Cell(str(number), tone if number else Tone.PLAIN) for number, tone in bad]
    conflicting = Cell(str(counts.conflicting), Tone.BAD if counts.conflicting else Tone.PLAIN)
    return [str(counts.in_step), *cells, conflicting, str(counts.skipped)]


def format_age(moment: str, now: datetime | None) -> str:
    """Return the time since a moment (RFC 3339) as kubectl does, in its largest unit; empty for no moment."""
    since = read_time(moment)
    if since is None or now is None:
        return ""
    passed_s = (now - since).total_seconds()
    for unit, size_s in _UNITS:
        if passed_s >= 2 * size_s or unit == "s":
            return f"{max(0, int(passed_s // size_s))}{unit}"
    return ""
