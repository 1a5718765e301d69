"""`registry-controller suspend` and `resume`: stop rules, and start them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from registry_controller.api import meta
from registry_controller.api.meta import Manifest, ObjectKey
from registry_controller.api.names import CORE_RULES
from registry_controller.cli.failures import run_to_end
from registry_controller.cli.global_options import GlobalOptions, global_options
from registry_controller.cli.output import Form, Printer, list_document, object_name

_METHODS: Final = frozenset({"GET", "PATCH"})
_KINDS: Final = ("resourcesyncrule", "rsr")
_FORMS: Final = (Form.TEXT, Form.NAME, Form.JSON, Form.YAML)


def _rule_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("rules", metavar="RULE...", nargs=-1, required=True, callback=_read_names)(function)


def _read_names(ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> Sequence[str]:
    """Return the names of rules, of NAME, rsr/NAME or the name that another command prints."""
    for kind, slash, _ in (text.rpartition("/") for text in value):
        if slash and kind.lower().removesuffix(f".{meta.GROUP}").removesuffix("s") not in _KINDS:
            raise click.UsageError(f"{kind}: is not one of {', '.join(_KINDS)}", ctx)
    return [text.rpartition("/")[2] for text in value]


@click.command("suspend")
@_rule_arguments
@global_options(forms=_FORMS)
def suspend_command(rules: Sequence[str], *, options: GlobalOptions) -> None:
    """Suspend rules: nothing is read, written or deleted for them, and their copies stay as they are.

    Run it in the cluster in which a rule was applied first; the other members follow. It sets `spec.suspend`, so a
    rule that is kept in Git must be changed there, too.

    \b
    Examples:
      registry-controller suspend greetings
      registry-controller suspend greetings shared --context kind-a
    """
    run_to_end(_set_suspend(options, rules, is_suspended=True))


@click.command("resume")
@_rule_arguments
@global_options(forms=_FORMS)
def resume_command(rules: Sequence[str], *, options: GlobalOptions) -> None:
    """Resume suspended rules: their copies follow their sources again.

    Run it in the cluster in which a rule was applied first. Deletions that are due then count for the limit on
    deletions; `plan` shows them before.

    \b
    Examples:
      registry-controller resume greetings
      registry-controller resume rsr/greetings --context kind-a
    """
    run_to_end(_set_suspend(options, rules, is_suspended=False))


async def _set_suspend(options: GlobalOptions, rules: Sequence[str], *, is_suspended: bool) -> None:
    """Set `spec.suspend` of each rule; ClickException for a rule that is missing or belongs to another cluster."""
    # Imported late, so that a wrong command line fails at once.
    from registry_controller.cli.connecting import connected  # noqa: PLC0415
    from registry_controller.local.client import command_client  # noqa: PLC0415

    word = "suspended" if is_suspended else "resumed"
    changed: list[Manifest] = []
    async with connected(options.connection, methods=_METHODS) as writer:
        client = command_client(writer, context=options.context)
        local = await client.read_id()
        for name in rules:
            key, shown = ObjectKey("", name), object_name(meta.RULE_KIND, name)
            manifest = await client.read(meta.RULES, key)
            if manifest is None:
                raise click.ClickException(f"{shown}: there is no such rule at {client.server}")
            owner = meta.annotations_of(manifest).get(meta.OWNER, local)
            if owner != local:
                raise click.ClickException(
                    f"{shown}: it belongs to the cluster with the ID {owner}, and an edit here has no effect; "
                    "run this command there"
                )
            if name in CORE_RULES:
                raise click.ClickException(
                    f"{shown}: the daemon makes this rule and puts it back; "
                    "to stop reading a cluster, annotate its Cluster as disabled"
                )
            spec = manifest.get("spec") or {}
            done = f"unchanged: it is {word} already"
            if bool(spec.get("suspend")) is not is_suspended:
                await client.merge_patch(meta.RULES, key, {"spec": {"suspend": True if is_suspended else None}})
                manifest, done = await client.read(meta.RULES, key) or manifest, word
            changed.append(manifest)
            if not options.printer.is_for_programs:
                options.printer.print_text(f"{shown} {done}")
    _print_rules(options.printer, changed)


def _print_rules(printer: Printer, rules: Sequence[Manifest]) -> None:
    """Print the rules in a form for programs: their names, or one object or a List of them."""
    if printer.form is Form.NAME:
        printer.print_names(object_name(meta.RULE_KIND, meta.metadata_of(rule)["name"]) for rule in rules)
    elif printer.is_for_programs:
        printer.print_document(rules[0] if len(rules) == 1 else list_document(rules))
