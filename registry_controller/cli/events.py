"""`registry-controller events`: shows the Events of the registry's objects."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click

from registry_controller.api import meta
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVR, GroupKind, Manifest
from registry_controller.cli.failures import FAILED, explain_error, name_context, run_to_end
from registry_controller.cli.global_options import Contexts, GlobalOptions, LocalConnection, global_options
from registry_controller.cli.output import (
    Cell,
    Form,
    Printer,
    Table,
    Tone,
    align_columns,
    hide_managers,
    list_document,
    object_name,
    say,
)

EVENTS: Final = GVR("", "v1", "events", True)
_EVENT: Final = GroupKind("", "Event")
_HEADINGS: Final = ("LAST SEEN", "CONTEXT", "TYPE", "REASON", "OBJECT", "FIRST SEEN", "SOURCE", "MESSAGE")
_ONLY_WIDE: Final = frozenset({"FIRST SEEN", "SOURCE"})
_OUR_KINDS: Final = {kind.kind.lower(): kind for kind in (meta.CLUSTER, meta.FEATURE, meta.RULE)}
_SHORT: Final = {"rsr": "resourcesyncrule", "rule": "resourcesyncrule", "clf": "clusterfeature", "cl": "cluster"}


@click.command("events")
@click.argument("kind", metavar="[KIND[/NAME]]", required=False)
@click.option("-w", "--watch", is_flag=True, help="Wait for further Events until Ctrl-C.")
@global_options(contexts=Contexts.MANY, forms=(Form.TEXT, Form.WIDE, Form.NAME, Form.JSON, Form.YAML))
@click.pass_context
def events_command(ctx: click.Context, /, *, options: GlobalOptions, kind: str | None, watch: bool) -> None:
    """Show the Events of Clusters, ClusterFeatures and ResourceSyncRules, the latest one last.

    With KIND or KIND/NAME it shows the Events of one kind or object. Exits 1 when a cluster cannot be read.

    \b
    Examples:
      registry-controller events
      registry-controller events rsr/greetings --context kind-a
      registry-controller events --watch --context kind-a --context kind-b
    """
    name = ""
    if kind is not None:
        kind, _, name = kind.partition("/")
        word = kind.lower().removesuffix("s")
        kind = _SHORT.get(word, word)
        if kind not in _OUR_KINDS:
            raise click.UsageError(f"{kind}: is not one of {', '.join(sorted(_OUR_KINDS))}", ctx)
    if watch and options.printer.is_for_programs:
        raise click.UsageError("--watch prints lines: it has no -o json, yaml or name", ctx)
    if watch:
        run_to_end(_watch(options, kind or "", name))
    elif not run_to_end(_show(options, kind or "", name)):
        sys.exit(FAILED)


def select_events(events: Iterable[Manifest], kind: str, name: str) -> Sequence[Manifest]:
    """Select the Events of our own kinds, of one kind or object where it is given, the latest one last."""
    return sorted((event for event in events if is_ours(event, kind, name)), key=last_seen)


def is_ours(event: Manifest, kind: str, name: str) -> bool:
    """Return whether an Event is about an object of our own kinds, and of the kind and name that are not empty."""
    about = event.get("involvedObject")
    if not isinstance(about, Mapping) or not str(about.get("apiVersion", "")).startswith(f"{meta.GROUP}/"):
        return False
    return (not kind or str(about.get("kind", "")).lower() == kind) and (not name or about.get("name") == name)


def last_seen(event: Manifest) -> str:
    """Return the time at which an Event was last seen, RFC 3339; empty where it has none."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


async def _show(options: GlobalOptions, kind: str, name: str) -> bool:
    """Print the Events of the clusters that answer; return whether all of them do."""
    from registry_controller.cli.connecting import connected  # noqa: PLC0415  late: --help needs no client
    from registry_controller.local.client import command_client  # noqa: PLC0415

    async def list_at(connection: LocalConnection) -> Sequence[tuple[str, Manifest]] | None:
        async with connected(connection) as writer:
            client = command_client(writer, context=connection.context)
            try:
                found = select_events(await client.list(EVENTS), kind, name)
            except RegistryError as error:
                say(f"Error: {name_context(explain_error(error), connection.context)}")
                return None
            return [(connection.context or "", event) for event in found]

    parts = await asyncio.gather(*(list_at(connection) for connection in options.connections))
    answers = [part for part in parts if part is not None]
    if answers:
        found = sorted((one for part in answers for one in part), key=lambda one: last_seen(one[1]))
        _print(options, found, is_whole=len(answers) == len(parts))
    return len(answers) == len(parts)


def _print(options: GlobalOptions, found: Sequence[tuple[str, Manifest]], *, is_whole: bool) -> None:
    printer = options.printer
    if printer.form is Form.NAME:
        printer.print_names(object_name(_EVENT, str(meta.metadata_of(event).get("name"))) for _, event in found)
    elif printer.is_for_programs:
        printer.print_document(list_document(hide_managers(event) for _, event in found))
    elif found:
        rows = [build_row(context, event) for context, event in found]
        more = _ONLY_WIDE if options.contexts else _ONLY_WIDE | {"CONTEXT"}
        printer.print_table(Table(_HEADINGS, rows, more))
    elif is_whole:
        say("there are no Events")


async def _watch(options: GlobalOptions, kind: str, name: str) -> None:
    """Print the Events that are there, by their time in each cluster, and then each new or changed one, forever.

    ClickException where no cluster can be read at the start.
    """
    from registry_controller.group import Group  # noqa: PLC0415  late, as above

    contexts = [connection.context or "" for connection in options.connections]
    known: dict[str, list[Manifest]] = {context: [] for context in contexts}
    failed: set[str] = set()
    async with Group.from_contexts(contexts, kubeconfig=options.kubeconfig) as group:
        async for change in group.watch("events"):
            context, first = change.member, known.get(change.member)
            if change.object is None and change.reason:
                failed |= {context} if first is not None else set()
                words = f"{context}: {change.reason}" if context else change.reason
                if failed == {*contexts}:
                    raise click.ClickException(words)
                say(f"warning: {words}; connecting again")
            elif change.object is None:
                failed.discard(context)
                for event in select_events(known.pop(context, ()), kind, name):
                    print_line(context, event, options.printer)
            elif change.type != "DELETED":
                event = change.object.manifest
                if first is not None:
                    first.append(event)
                elif is_ours(event, kind, name):
                    print_line(context, event, options.printer)


def build_row(context: str, event: Manifest) -> list[str | Cell]:
    """Return the cells of an Event, in the order of the headings."""
    about = event.get("involvedObject") or {}
    kind = str(event.get("type", ""))
    count = event.get("count") or 1
    message = str(event.get("message", "")) + (f" (x{count})" if count > 1 else "")
    tone = Tone.WARNING if kind == "Warning" else Tone.PLAIN
    obj = object_name(GroupKind("", str(about.get("kind", ""))), str(about.get("name", "")))
    first_seen = str(event.get("firstTimestamp") or last_seen(event))
    source = str((event.get("source") or {}).get("component") or event.get("reportingComponent") or "")
    cells = (str(event.get("reason", "")), obj, first_seen, source, message)
    return [last_seen(event), context, Cell(kind, tone), *cells]


def print_line(context: str, event: Manifest, printer: Printer) -> None:
    """Print an Event in one line."""
    shown = Table(_HEADINGS, [build_row(context, event)], _ONLY_WIDE).select_columns(is_wide=printer.form is Form.WIDE)
    cells = [cell.text if isinstance(cell, Cell) else cell for cell in shown.rows[0]]
    printer.print_text(align_columns([[cell for cell in cells if cell]]))
