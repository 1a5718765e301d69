"""`registry-controller status`: shows a group, and whether all is well."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from registry_controller.api import meta
from registry_controller.cli.failures import run_to_end
from registry_controller.cli.global_options import Contexts, GlobalOptions, global_options
from registry_controller.cli.options import seconds
from registry_controller.cli.output import Form, Tone, object_name

if TYPE_CHECKING:
    from registry_controller.admin.group_status import GroupStatus

_FORMS: Final = (Form.TEXT, Form.WIDE, Form.NAME, Form.JSON, Form.YAML)
_READING: Final = "reading the members of the group"
_POLL_S: Final = 1.0
_WATCH_S: Final = 2.0


@click.command("status")
@click.option(
    "--wait",
    "wait_s",
    callback=seconds,
    metavar="TIME",
    default="0s",
    show_default=True,
    help="Time to wait until all is well.",
)
@click.option("--watch", is_flag=True, help="Show the status again when it changes, until Ctrl-C.")
@global_options(contexts=Contexts.MANY, forms=_FORMS)
@click.pass_context
def status_command(ctx: click.Context, /, *, options: GlobalOptions, wait_s: float, watch: bool) -> None:
    """Show how the members of a group find each other, rules that are not in step, and copies by rule and owner.

    Reads the Lease of each daemon, or else the status of Clusters and rules. With one context, it shows the group as
    this member finds it, and reads the Leases of the other members with the Secrets there; with several, members by
    members.

    Exits 1 while anything is not well: a member that another one does not read or know, also where only its Cluster
    here shows that for a minute; a daemon that does not run; a rule that is not in step. Rules that are suspended or
    not allowed do not count.

    \b
    Examples:
      registry-controller status --context kind-a --context kind-b
      registry-controller status --context kind-a --wait 2m
      registry-controller status --context kind-a --context kind-b -o json
    """
    if watch and wait_s:
        raise click.UsageError("--watch does not end by itself: give no --wait with it", ctx)
    status = run_to_end(_watch(options) if watch else _wait(options, wait_s=wait_s))
    print_status(options, status)
    if status.problems:
        sys.exit(1)


async def _read(options: GlobalOptions) -> GroupStatus:
    from registry_controller.admin.group_status import read_group  # noqa: PLC0415
    from registry_controller.admin.sites import connect_sites  # noqa: PLC0415

    async with connect_sites(options.connections, namespace=options.namespace) as sites:
        return await read_group(sites, now=datetime.now(UTC))


async def _wait(options: GlobalOptions, *, wait_s: float) -> GroupStatus:
    """Return the status once all is well, or the last one; each attempt connects again."""
    loop = asyncio.get_running_loop()
    deadline, reported = loop.time() + wait_s, ""
    while True:
        with contextlib.nullcontext() if reported else options.printer.progress(_READING):
            status = await _read(options)
        if not status.problems or loop.time() >= deadline:
            return status
        if status.problems[0] != reported:
            reported = status.problems[0]
            options.printer.say(f"waits: {reported}")
        await asyncio.sleep(_POLL_S)


async def _watch(options: GlobalOptions) -> GroupStatus:
    """Print each status that differs from the one before. It ends by Ctrl-C only."""
    before: GroupStatus | None = None
    while True:
        with options.printer.progress(_READING) if before is None else contextlib.nullcontext():
            status = await _read(options)
        if status != before:
            if before is not None and not options.printer.is_for_programs:
                click.echo()
            print_status(options, status)
            before = status
        await asyncio.sleep(_WATCH_S)


def print_status(options: GlobalOptions, status: GroupStatus) -> None:
    """Print the status to the standard output, and the faults that it does not show in full to the standard error."""
    from registry_controller.admin.group_status import build_document  # noqa: PLC0415
    from registry_controller.cli.status_tables import build_sections, list_remarks  # noqa: PLC0415

    printer, problems = options.printer, status.problems
    remarks = problems
    if printer.form is Form.NAME:
        printer.print_names(object_name(meta.CLUSTER_KIND, member.name) for member in status.members)
    elif printer.is_for_programs:
        remarks = ()
        printer.print_document(build_document(status))
    else:
        remarks = list_remarks(status)
        for section in build_sections(status, now=datetime.now(UTC), is_wide=printer.form is Form.WIDE):
            printer.print_text(section.title, Tone.STRONG)
            printer.print_table(section.table)
            click.echo()
    for words in remarks:
        printer.say(words, Tone.BAD)
    if problems:
        printer.say(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}", Tone.BAD)
    else:
        printer.say("all is well", Tone.GOOD)
