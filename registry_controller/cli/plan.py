"""`registry-controller plan`: reports the changes that applying a rule would make here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from registry_controller.api import meta
from registry_controller.api.meta import GroupKind, Manifest
from registry_controller.cli.files import file_option
from registry_controller.cli.global_options import GlobalOptions, global_options
from registry_controller.cli.options import dry_run_options, load_settings
from registry_controller.cli.output import Cell, Form, Printer, Table, Tone, object_name, say

if TYPE_CHECKING:
    from registry_controller.planner.changes import ObjectChanges
    from registry_controller.planner.dry_run import DryRun
    from registry_controller.planner.output import ClusterNames
    from registry_controller.planner.plan import Plan

_TONES: Final = {
    "create": Tone.GOOD,
    "update": Tone.GOOD,
    "delete": Tone.BAD,
    "skip": Tone.MINOR,
    "conflict": Tone.WARNING,
    "wait": Tone.WARNING,
    "fail": Tone.BAD,
}
_CHANGES: Final = ("create", "update", "delete")
_SIGNS: Final = {"+": Tone.GOOD, "-": Tone.BAD, "~": Tone.WARNING}


@click.command("plan")
@file_option(help="YAML with one or more ResourceSyncRules.")
@dry_run_options
@global_options(forms=(Form.TEXT, Form.WIDE, Form.NAME, Form.DIFF, Form.JSON, Form.YAML))
def plan_command(*, options: GlobalOptions, files: Sequence[Path], wait_s: float, **flags: str | None) -> None:
    """Report the changes that applying a rule would make in this cluster, and write nothing.

    One line for each object: create, update, delete, skip, conflict, wait or fail, the source cluster, and the reason.
    A rule with the name of an existing rule is an edit; the plan includes the copies that the edit removes.

    With -o diff, the changed fields of each object follow it; values of Secrets are hidden. With -o name, it prints
    the objects that would be created, updated or deleted.

    Exits 1 when the rule would not be accepted, when a change would fail, or when a cluster could not be read, so that
    the plan may be incomplete.

    \b
    Examples:
      registry-controller plan -f rule.yaml
      registry-controller plan -f - --wait-for-peers 1m < rule.yaml
      registry-controller plan --context kind-a -f rule.yaml -o diff
    """
    settings, now = load_settings(options, flags), datetime.now(UTC)
    rules = [rule for file in files for rule in _read_rules(file)]
    # Imported late, so that a wrong rule fails at once.
    from registry_controller.cli.dry_run import DryRunCommand  # noqa: PLC0415
    from registry_controller.planner.changes import read_changes  # noqa: PLC0415
    from registry_controller.planner.output import ClusterNames  # noqa: PLC0415
    from registry_controller.planner.plan import PlanAction, make_plan  # noqa: PLC0415

    async def answer(dry_run: DryRun) -> tuple[Plan, ClusterNames, Sequence[ObjectChanges]]:
        dry_run.keeps_bodies = options.form is Form.DIFF
        made = await make_plan(dry_run, [meta.metadata_of(rule)["name"] for rule in rules], now=now)
        changes = await read_changes(made, dry_run) if options.form is Form.DIFF else ()
        return made, ClusterNames(dry_run.engine), changes

    made, names, changes = DryRunCommand(settings, options.connection, wait_s, now, options.printer).ask(
        answer, manifests=rules
    )
    if options.form is Form.DIFF:
        _print_changes(options.printer, made, names, changes)
    else:
        _print_plan(options.printer, made, names)
    sys.exit(1 if made.problems or any(row.action is PlanAction.FAIL for row in made.rows) else 0)


def _print_plan(printer: Printer, plan: Plan, names: ClusterNames) -> None:
    from registry_controller.planner.output import (  # noqa: PLC0415  late, as above
        PLAN_HEADINGS,
        build_plan_document,
        format_plan_end,
        list_plan_lines,
    )

    if printer.form is Form.NAME:
        changed = (row.target for row in plan.rows if row.action.value in _CHANGES)
        printer.print_names(object_name(GroupKind(*target[:2]), target.name) for target in changed)
        return
    if printer.is_for_programs:
        printer.print_document(build_plan_document(plan, names))
        return
    lines = list_plan_lines(plan, names, is_wide=printer.form is Form.WIDE)
    printer.print_table(
        Table(PLAN_HEADINGS, [[Cell(first, _TONES[action.value]), *rest] for action, (first, *rest) in lines])
    )
    printer.print_text(("\n" if lines else "") + format_plan_end(plan))


def _print_changes(printer: Printer, plan: Plan, names: ClusterNames, changes: Sequence[ObjectChanges]) -> None:
    from registry_controller.planner.output import format_plan_end  # noqa: PLC0415  late, as above

    for found in changes:
        row = found.row
        owner = f", from cluster {names.get_name(row.owner)}" if row.owner and row.owner != names.local else ""
        rule = f", by rule {row.rule}" if row.rule else ""
        printer.print_text(f"{row.action.value} {row.target}{owner}{rule}", Tone.STRONG)
        for change in found.changes:
            printer.print_text(f"  {change.sign} {change.text}", _SIGNS[change.sign])
        if found.problem:
            printer.print_text(f"  the fields are not known: {found.problem}", Tone.WARNING)
    printer.print_text(("\n" if changes else "") + format_plan_end(plan))


def _read_rules(file: Path) -> Sequence[Manifest]:
    """Return the rules of a file; print the findings of `lint`, and exit 1 for an error."""
    from registry_controller.cli.lint import examine_file  # noqa: PLC0415  it imports all readers of rules

    rules, errors = [], 0
    for manifest, remarks, _ in examine_file(file, named=True):
        for remark in remarks:
            say(str(remark))
            errors += remark.finding.is_error
        if manifest.get("kind") == meta.RULE.kind:
            rules.append(manifest)
    if not errors and not rules:
        raise click.ClickException(f"{file}: holds no {meta.RULE.kind}")
    if errors:
        raise click.exceptions.Exit(1)
    return rules
