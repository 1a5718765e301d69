"""`registry-controller explain`: reports why an object is copied here, or is not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry_controller.api.errors import NotServed
from registry_controller.api.meta import ObjectKey
from registry_controller.cli.options import dry_run_options, load_settings

if TYPE_CHECKING:
    from registry_controller.planner.dry_run import DryRun
    from registry_controller.planner.output import JsonDocument


@click.command("explain")
@click.argument("kind")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@click.option(
    "-n", "in_namespace", metavar="NAMESPACE", help="The object's namespace, when NAME is not NAMESPACE/NAME."
)
@dry_run_options
@click.pass_context
def explain_command(
    ctx: click.Context,
    /,
    *,
    kind: str,
    name: str,
    in_namespace: str | None,
    kubeconfig: Path | None,
    context_name: str | None,
    wait_s: float,
    form: str,
    **flags: str | None,
) -> None:
    """Report the owner of an object, the rules that match it, the decision in this cluster, and its pending work.

    KIND as kubectl accepts it: secret, secrets, rsr, deployments.apps. The object may be a source or a copy. For a
    rule that does not match, the report names the first clause that fails. It also names the clusters that refuse to
    show the object.

    Exits 1 when neither this cluster nor a peer has the object.

    \b
    Examples:
      registry-controller explain secret default/hello
      registry-controller explain clusters b
      registry-controller explain deployments.apps web -n shop -o json
    """
    settings = load_settings(ctx, flags)
    namespace, last = _read_name(ctx, name, in_namespace=in_namespace)
    # Imported late, so that a wrong command line fails at once.
    from registry_controller.cli.dry_run import DryRunCommand, print_and_exit  # noqa: PLC0415
    from registry_controller.planner.explain import explain_object  # noqa: PLC0415
    from registry_controller.planner.output import (  # noqa: PLC0415
        ClusterNames,
        build_explanation_document,
        format_explanation,
    )

    async def answer(dry_run: DryRun) -> tuple[str | JsonDocument, bool]:
        try:
            found_kind, gvr = await dry_run.engine.discovery.find(kind)
        except NotServed:
            where = dry_run.engine.clusters.name_of(dry_run.engine.local)
            command = " ".join(["kubectl", *(["--context", context_name] if context_name else []), "api-resources"])
            words = f"cluster {where} serves no kind {kind} that can be listed and watched; {command} lists its kinds"
            raise click.ClickException(words) from None
        if gvr.namespaced != bool(namespace):
            words = "live in namespaces: give NAMESPACE/NAME" if gvr.namespaced else "have no namespace: give NAME"
            raise click.UsageError(f"{name}: {gvr.resource} {words}", ctx)
        found = await explain_object(dry_run, found_kind, gvr, ObjectKey(namespace, last))
        names = ClusterNames(dry_run.engine)
        return (build_explanation_document if form == "json" else format_explanation)(found, names), found.is_found

    text, is_found = DryRunCommand(settings, kubeconfig, context_name, wait_s, datetime.now(UTC)).ask(answer)
    print_and_exit(text, is_well=is_found)


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
