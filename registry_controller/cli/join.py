"""`registry-controller join`: makes clusters members of one group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from registry_controller.cli.failures import run_to_end
from registry_controller.cli.global_options import Contexts, GlobalOptions, global_options
from registry_controller.cli.options import seconds
from registry_controller.cli.output import Form, Table, hide_managers

if TYPE_CHECKING:
    from registry_controller.admin.join import JoinPlan
    from registry_controller.admin.sites import Site
    from registry_controller.admin.swap import Change

_FORMS: Final = (Form.TEXT, Form.WIDE, Form.JSON, Form.YAML)


def _read_pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Mapping[str, str]:
    """Parse NAME=VALUE; a context may have an equals sign in its name, a URL has none."""
    found: dict[str, str] = {}
    for text in value:
        name, equals, given = text.rpartition("=")
        if not equals or not name or not given:
            raise click.BadParameter(f"{text!r} is not {param.metavar}", ctx, param)
        if name in found:
            raise click.BadParameter(f"{name} is given twice", ctx, param)
        found[name] = given
    return found


@click.command("join")
@click.option(
    "--endpoint",
    "addresses",
    multiple=True,
    metavar="CLUSTER=URL",
    callback=_read_pairs,
    help="Address at which the other members reach the API server of a cluster, which is a context or the name of its "
    "Cluster. It is stored in that Cluster. Repeatable.",
)
@click.option(
    "--ca-file",
    "ca_files",
    multiple=True,
    metavar="CLUSTER=FILE",
    callback=_read_pairs,
    help="PEM certificates that verify the API server at this address, if the cluster's own CA does not. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Check, and print the objects to write; write nothing.")
@click.option("--show-secrets", is_flag=True, help="Print the data of Secrets, too, with --dry-run -o yaml or json.")
@click.option("--skip-checks", is_flag=True, help="Write without the checks.")
@click.option("--undo", is_flag=True, help="Take the join back: the members forget each other, and their copies stay.")
@click.option(
    "--wait",
    "wait_s",
    callback=seconds,
    metavar="TIME",
    default="2m",
    show_default=True,
    help="Time to wait for the daemons. After that, run the same command to continue.",
)
@global_options(contexts=Contexts.MANY, forms=_FORMS)
@click.pass_context
def join_command(
    ctx: click.Context,
    /,
    *,
    options: GlobalOptions,
    addresses: Mapping[str, str],
    ca_files: Mapping[str, str],
    dry_run: bool,
    show_secrets: bool,
    skip_checks: bool,
    undo: bool,
    wait_s: float,
) -> None:
    """Join clusters to one group: each gets the Cluster and the Secret of another member.

    Checks first how the members reach each other, from the daemons' Pods if your user may run programs there, or else
    from this machine: the address, the certificate and its CA, the cluster's ID, the token, the rights. Nothing is
    written while a check fails. Then waits until all members read each other. A join that is done already changes
    nothing. Clusters that are members of a group already bring the whole group.

    Exits 1 for a failed check, and when the members are not in step after the time to wait.

    \b
    Examples:
      registry-controller join --context kind-a --context kind-b
      registry-controller join --context a --context b --endpoint b=https://b.example.com:6443
      registry-controller join --context a --context b --dry-run -o yaml
      registry-controller join --context a --context b --undo
    """
    if len(options.contexts) < 2:
        raise click.UsageError("a join needs two clusters or more: give --context for each", ctx)
    if show_secrets and not (dry_run and options.form in (Form.JSON, Form.YAML)):
        raise click.UsageError("--show-secrets is for --dry-run with -o yaml or -o json", ctx)
    given = (_read_addresses(ctx, addresses), _read_ca_files(ctx, ca_files))
    run_to_end(
        _undo(options, dry_run=dry_run, wait_s=wait_s)
        if undo
        else _join(options, given, dry_run=dry_run, show_secrets=show_secrets, skip_checks=skip_checks, wait_s=wait_s)
    )


def _read_ca_files(ctx: click.Context, files: Mapping[str, str]) -> Mapping[str, str]:
    from registry_controller.api.errors import InvalidKubeconfig  # noqa: PLC0415
    from registry_controller.kube.pem import read_ca  # noqa: PLC0415

    found = {}
    for name, file in files.items():
        try:
            found[name] = read_ca(Path(file).read_bytes(), field=f"--ca-file {name}={file}")
        except OSError as error:
            raise click.UsageError(f"--ca-file {name}={file}: cannot be read ({error.strerror})", ctx) from None
        except InvalidKubeconfig as error:
            raise click.UsageError(str(error), ctx) from None
    return found


def _read_addresses(ctx: click.Context, addresses: Mapping[str, str]) -> Mapping[str, str]:
    from registry_controller.api.errors import InvalidKubeconfig  # noqa: PLC0415
    from registry_controller.kube.address import read_address  # noqa: PLC0415

    try:
        return {name: read_address(text, field=f"--endpoint {name}={text}") for name, text in addresses.items()}
    except InvalidKubeconfig as error:
        raise click.UsageError(str(error), ctx) from None


async def _join(
    options: GlobalOptions,
    given: tuple[Mapping[str, str], Mapping[str, str]],
    *,
    dry_run: bool,
    show_secrets: bool,
    skip_checks: bool,
    wait_s: float,
) -> None:
    # Imported late, so that a wrong command line fails at once.
    from registry_controller.admin.join import Endpoints, JoinCommand  # noqa: PLC0415
    from registry_controller.admin.sites import connect_sites  # noqa: PLC0415

    printer = options.printer
    async with connect_sites(options.connections, namespace=options.namespace) as found:
        sites = found.require_all()
        command = JoinCommand(
            sites,
            endpoints=Endpoints(*given),
            wait_s=wait_s,
            report=printer.say,
            on_change=partial(_print_change, options, sites),
        )
        plan = await command.plan(skip_checks=skip_checks)
        _report_checks(options, plan)
        if dry_run:
            _print_changes(options, sites, plan.changes, show_secrets=show_secrets)
            return
        done = await command.join()
        if printer.is_for_programs:
            _print_changes(options, sites, done)
        elif not done:
            printer.print_text("nothing to change")
        printer.say(f"{len(sites)} members are in step")


def _report_checks(options: GlobalOptions, plan: JoinPlan) -> None:
    """Report from where was checked, and warnings; ClickException for failures."""
    printer = options.printer
    for view in plan.views:
        if view.obstacle:
            printer.say(f"{view.viewer}: the checks ran on this machine, not in a Pod of its daemon: {view.obstacle}")
    for words in plan.warnings:
        printer.say(f"warning: {words}")
    if plan.problems:
        head = "the clusters cannot read each other; nothing was written"
        raise click.ClickException("\n".join([head, *plan.problems]))


async def _undo(options: GlobalOptions, *, dry_run: bool, wait_s: float) -> None:
    from registry_controller.admin.sites import connect_sites  # noqa: PLC0415
    from registry_controller.admin.undo import UndoCommand  # noqa: PLC0415

    printer = options.printer
    async with connect_sites(options.connections, namespace=options.namespace) as found:
        sites = found.require_all()
        command = UndoCommand(
            sites, wait_s=wait_s, report=printer.say, on_change=partial(_print_change, options, sites)
        )
        done = await (command.plan() if dry_run else command.undo())
        if printer.is_for_programs or dry_run:
            _print_changes(options, sites, done)
        elif not done:
            printer.print_text("nothing to change")
        if not dry_run:
            printer.say("the clusters do not know each other any more; copies and rules stay")


def _print_change(options: GlobalOptions, sites: Sequence[Site], change: Change) -> None:
    """Print one change that was made, as kubectl does; programs get all changes at the end."""
    printer = options.printer
    if not printer.is_for_programs:
        printer.print_text(f"{change.what} {change.action.value}d in {sites[change.at].label}")


def _print_changes(
    options: GlobalOptions, sites: Sequence[Site], changes: Sequence[Change], *, show_secrets: bool = False
) -> None:
    """Print the changes: a table, or for programs the objects with the contexts in which they are written."""
    from registry_controller.admin.swap import redacted  # noqa: PLC0415

    printer = options.printer
    if not printer.is_for_programs:
        rows = [[sites[change.at].label, change.action.value, change.what] for change in changes]
        if not rows:
            printer.print_text("nothing to change")
        printer.print_table(Table(["CONTEXT", "ACTION", "OBJECT"], rows))
        return
    written = [(change, hide_managers(change.manifest)) for change in changes]
    shown = [(change, manifest if show_secrets else redacted(manifest)) for change, manifest in written]
    if printer.form is Form.YAML:
        for change, manifest in shown:
            click.echo(f"---\n# context {sites[change.at].context}: {change.action.value}")
            printer.print_document(manifest)
        return
    printer.print_document(
        [
            {"context": sites[change.at].context, "action": change.action.value, "object": manifest}
            for change, manifest in shown
        ]
    )
