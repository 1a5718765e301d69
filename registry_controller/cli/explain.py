"""`registry-controller explain`: why an object is copied here, or is not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry_controller.api.errors import NotServed
from registry_controller.api.meta import ObjectKey
from registry_controller.cli.options import asking_options, load_settings

if TYPE_CHECKING:
    from registry_controller.planner.dry_run import DryRun
    from registry_controller.planner.output import JsonDocument


@click.command()
@click.argument("kind")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@click.option(
    "-n", "in_namespace", metavar="NAMESPACE", help="The object's namespace, when NAME is not NAMESPACE/NAME."
)
@asking_options
@click.pass_context
def explain(
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
    """Say whose an object is, which rules match it, what is decided about it in this cluster, and what is waited for.

    KIND as kubectl takes it: secret, secrets, rsr, deployments.apps. The object may be a source or a copy. Rules that
    do not match say which clause fails first. Where it may not be read is said, and what can be told without it. Exits
    with 1 when it was found nowhere: not here, nor at a peer.
    """
    settings = load_settings(ctx, flags)
    namespace, last = _read_name(ctx, name, in_namespace=in_namespace)
    from registry_controller.cli.asking import DryRunCommand, end  # noqa: PLC0415  a wrong command is refused at once
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
            words = (
                f"cluster {where} serves no kind {kind} that can be listed and watched; {command} says what it serves"
            )
            raise click.ClickException(words) from None
        if gvr.namespaced != bool(namespace):
            words = "live in namespaces: give NAMESPACE/NAME" if gvr.namespaced else "have no namespace: give NAME"
            raise click.UsageError(f"{name}: {gvr.resource} {words}", ctx)
        found = await explain_object(dry_run, found_kind, gvr, ObjectKey(namespace, last))
        names = ClusterNames(dry_run.engine)
        return (build_explanation_document if form == "json" else format_explanation)(found, names), found.is_found

    told, is_found = DryRunCommand(settings, kubeconfig, context_name, wait_s, datetime.now(UTC)).ask(answer)
    end(told, is_well=is_found)


def _read_name(ctx: click.Context, name: str, *, in_namespace: str | None) -> tuple[str, str]:
    """Read an object's namespace, empty for none, and its name."""
    namespace, slash, last = name.rpartition("/")
    if not last or "/" in namespace or (slash and not namespace):
        raise click.UsageError(f"{name}: is no NAMESPACE/NAME, nor the NAME of an object without a namespace", ctx)
    if in_namespace is None:
        return namespace, last
    if not in_namespace or (slash and namespace != in_namespace):
        raise click.UsageError(f"-n {in_namespace}: is no namespace, or not the one of {name}", ctx)
    return in_namespace, last
