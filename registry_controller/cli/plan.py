"""`registry-controller plan`: reports the changes that applying a rule would make here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry_controller.api import meta
from registry_controller.api.meta import Manifest
from registry_controller.cli.lint import examine_file
from registry_controller.cli.options import dry_run_options, load_settings

if TYPE_CHECKING:
    from registry_controller.planner.dry_run import DryRun
    from registry_controller.planner.output import JsonDocument


@click.command("plan")
@click.option(
    "-f", "--filename", "file", required=True, type=click.Path(path_type=Path, allow_dash=True),
    help="YAML with one or more ResourceSyncRules; - is standard input.",
)  # fmt: skip
@dry_run_options
@click.pass_context
def plan_command(
    ctx: click.Context,
    /,
    *,
    file: Path,
    kubeconfig: Path | None,
    context_name: str | None,
    wait_s: float,
    form: str,
    **flags: str | None,
) -> None:
    """Report the changes that applying a rule would make in this cluster, and write nothing.

    One line for each object: create, update, delete, skip, conflict, wait or fail, the source cluster, and the reason.
    A rule with the name of an existing rule is an edit; the plan includes the copies that the edit removes.

    Exits 1 when the rule would not be accepted, when a change would fail, or when a cluster could not be read, so that
    the plan may be incomplete.

    \b
    Examples:
      registry-controller plan -f rule.yaml
      registry-controller plan -f - --wait-for-peers 1m < rule.yaml
      registry-controller plan --context kind-a -f rule.yaml -o json
    """
    settings, now = load_settings(ctx, flags), datetime.now(UTC)
    rules = _read_rules(file)
    # Imported late, so that a wrong rule fails at once.
    from registry_controller.cli.dry_run import DryRunCommand, print_and_exit  # noqa: PLC0415
    from registry_controller.planner.output import ClusterNames, build_plan_document, format_plan  # noqa: PLC0415
    from registry_controller.planner.plan import PlanAction, make_plan  # noqa: PLC0415

    async def answer(dry_run: DryRun) -> tuple[str | JsonDocument, bool]:
        made = await make_plan(dry_run, [meta.metadata_of(rule)["name"] for rule in rules], now=now)
        names = ClusterNames(dry_run.engine)
        is_well = not made.problems and not any(row.action is PlanAction.FAIL for row in made.rows)
        return (build_plan_document if form == "json" else format_plan)(made, names), is_well

    text, is_well = DryRunCommand(settings, kubeconfig, context_name, wait_s, now).ask(answer, manifests=rules)
    print_and_exit(text, is_well=is_well)


def _read_rules(file: Path) -> Sequence[Manifest]:
    """Return the rules of a file; print the findings of `lint`, and exit 1 for an error."""
    rules, errors = [], 0
    for manifest, remarks in examine_file(file, named=True):
        for remark in remarks:
            click.echo(str(remark), err=True)
            errors += remark.finding.is_error
        if manifest.get("kind") == meta.RULE.kind:
            rules.append(manifest)
    if not errors and not rules:
        raise click.ClickException(f"{file}: holds no {meta.RULE.kind}")
    if errors:
        raise click.exceptions.Exit(1)
    return rules
