"""`registry-controller explain`: reports why an object is copied here, or is not."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from registry_controller.api.errors import NotServed
from registry_controller.api.meta import ObjectKey
from registry_controller.cli.failures import OptionFailure
from registry_controller.cli.global_options import Contexts, GlobalOptions, global_options
from registry_controller.cli.options import dry_run_options, load_settings
from registry_controller.cli.output import Form

if TYPE_CHECKING:
    from registry_controller.planner.dry_run import DryRun
    from registry_controller.planner.explain import Explanation
    from registry_controller.planner.output import ClusterNames


@click.command("explain")
@click.argument("kind", metavar="KIND[/NAME]")
@click.argument("name", metavar="[NAMESPACE/]NAME", required=False)
@click.option(
    "-n", "in_namespace", metavar="NAMESPACE", help="The object's namespace, when NAME is not NAMESPACE/NAME."
)
@dry_run_options
@global_options(contexts=Contexts.MANY, forms=(Form.TEXT, Form.WIDE, Form.JSON, Form.YAML), has_namespace=False)
@click.pass_context
def explain_command(
    ctx: click.Context,
    /,
    *,
    options: GlobalOptions,
    kind: str,
    name: str | None,
    in_namespace: str | None,
    wait_s: float,
    **flags: str | None,
) -> None:
    """Report the owner of an object, the rules that match it, the decision in this cluster, and its pending work.

    KIND as kubectl accepts it: secret, secrets, rsr, deployments.apps; secret/hello stands for secret hello. The
    object may be a source or a copy. For a rule that does not match, the report names the first clause that fails. It
    also names the clusters that refuse to show the object.

    With --context for several members, it prints one line for each: the owner, whether the copy there is in step, the
    last change of the source that it has not followed, and why.

    Exits 1 when no cluster has the object, or when one of several contexts cannot be read.

    \b
    Examples:
      registry-controller explain secret default/hello
      registry-controller explain secret/hello -n default
      registry-controller explain clusters b
      registry-controller explain secret/hello -n default --context kind-a --context kind-b
      registry-controller explain deployments.apps web -n shop -o json
    """
    settings = load_settings(options, flags)
    kind, name = _split_kind(ctx, kind, name)
    namespace, last = _read_name(ctx, name, in_namespace=in_namespace)
    # Imported late, so that a wrong command line fails at once.
    from registry_controller.cli.dry_run import DryRunCommand  # noqa: PLC0415
    from registry_controller.planner.explain import explain_object  # noqa: PLC0415
    from registry_controller.planner.output import (  # noqa: PLC0415
        ClusterNames,
        build_explanation_document,
        format_explanation,
    )

    async def answer(dry_run: DryRun) -> tuple[Explanation, ClusterNames]:
        try:
            found_kind, gvr = await dry_run.engine.discovery.find(kind)
        except NotServed:
            where = dry_run.engine.clusters.name_of(dry_run.engine.local)
            command = " ".join(
                ["kubectl", *(["--context", options.context] if options.context else []), "api-resources"]
            )
            words = f"cluster {where} serves no kind {kind} that can be listed and watched; {command} lists its kinds"
            raise click.ClickException(words) from None
        if gvr.namespaced != bool(namespace):
            words = "live in namespaces: give NAMESPACE/NAME" if gvr.namespaced else "have no namespace: give NAME"
            raise OptionFailure(f"{name}: {gvr.resource} {words}")
        found = await explain_object(dry_run, found_kind, gvr, ObjectKey(namespace, last))
        return found, ClusterNames(dry_run.engine)

    now, printer = datetime.now(UTC), options.printer
    if len(options.contexts) > 1:
        from registry_controller.cli.explain_members import explain_members  # noqa: PLC0415

        commands = [DryRunCommand(settings, connection, wait_s, now, printer) for connection in options.connections]
        sys.exit(0 if explain_members(commands, answer, printer) else 1)
    found, names = DryRunCommand(settings, options.connection, wait_s, now, printer).ask(answer)
    if printer.is_for_programs:
        printer.print_document(build_explanation_document(found, names))
    else:
        printer.print_text(format_explanation(found, names))
    sys.exit(0 if found.is_found else 1)


def _split_kind(ctx: click.Context, kind: str, name: str | None) -> tuple[str, str]:
    """Return kind and name; `secret/hello` without a name has both."""
    before, slash, after = kind.partition("/")
    if name is None and slash and before:
        return before, after
    if name is None:
        raise click.UsageError("Missing argument '[NAMESPACE/]NAME'.", ctx)
    return kind, name


def _read_name(ctx: click.Context, name: str, *, in_namespace: str | None) -> tuple[str, str]:
    """Return the namespace, empty for a cluster-scoped object, and the name."""
    namespace, slash, last = name.rpartition("/")
    if not last or "/" in namespace or (slash and not namespace):
        raise click.UsageError(f"{name}: is no NAMESPACE/NAME, nor the NAME of a cluster-scoped object", ctx)
    if in_namespace is None:
        return namespace, last
    if not in_namespace or (slash and namespace != in_namespace):
        raise click.UsageError(f"-n {in_namespace}: is no namespace, or not the one of {name}", ctx)
    return in_namespace, last
