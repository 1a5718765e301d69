"""Options of several commands: the connection to the local cluster, and the options of the daemon."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

import click

from registry_controller import settings
from registry_controller.api.errors import Forbidden, InvalidOption, RegistryError
from registry_controller.settings import Settings

_DURATION: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|)")
_DECISIVE: Final = (
    "namespace", "network_name", "deletion_limit_percent", "member_left_trust_seconds", "synced_rules_enabled",
    "synced_rules_kinds", "synced_rules_namespaces", "closed_kinds", "closed_namespaces",
)  # fmt: skip
"""The options of the daemon that decisions depend on."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Parse a time into seconds: 20, 20s or 1.5m."""
    found = _DURATION.fullmatch(value)
    if not found:
        raise click.BadParameter(f"{value!r} is not a time such as 20s or 2m", ctx, param)
    return float(found[1]) * (60.0 if found[2] == "m" else 1.0)


def connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--kubeconfig` and `--context`."""
    function = click.option(
        "--context", "context_name", help="Context in the kubeconfig; default: its current context."
    )(function)
    return click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="Kubeconfig of this cluster; default: KUBECONFIG, else the Pod's ServiceAccount, else ~/.kube/config.",
    )(function)


def daemon_options(fields: Collection[str] | None = None) -> Decorator:
    """Add a flag for each option of the daemon, or for `fields`; a boolean needs no value, as in the original."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(settings.OPTIONS):
            if fields is not None and option.field not in fields:
                continue
            default = f"; default {option.default!r}" if option.default else ""
            more: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if option.form == "true|false" else {}
            metavar = f"[{option.form}]" if "|" in option.form else option.form.upper()
            shown = f"{option.help} [env {option.environment}{default}]"
            function = click.option(option.flag, option.field, metavar=metavar, help=shown, **more)(function)
        return function

    return decorate


def dry_run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a dry run: connection, time, output format, and the options that decisions depend on."""
    function = daemon_options(_DECISIVE)(function)
    function = click.option(
        "-o", "--output", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the answer."
    )(function)
    function = click.option(
        "--wait-for-peers",
        "wait_s",
        callback=seconds,
        metavar="TIME",
        default="20s",
        show_default=True,
        help="Time to wait for the local API server and for the peers.",
    )(function)
    return connection_options(function)


def load_settings(ctx: click.Context, flags: Mapping[str, str | None]) -> Settings:
    """Load the options of the daemon; UsageError for a wrong option."""
    try:
        return settings.load(os.environ, flags)
    except InvalidOption as error:
        raise click.UsageError(str(error), ctx) from None


def explain_error(error: RegistryError) -> str:
    """Return the message for an error of the API server; for a missing right, with the user that needs it."""
    if isinstance(error, Forbidden) and error.lacks_right:
        return f"cannot {error}; grant it to the user of the kubeconfig, or name another --context"
    return str(error)
