"""Options that several commands have: how home is reached, and those of the daemon."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

import click

from registry_controller import settings
from registry_controller.api.errors import InvalidOption
from registry_controller.settings import Settings

_DURATION: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|)")
_ASKED: Final = (
    "namespace", "network_name", "deletion_limit_percent", "member_left_trust_seconds", "synced_rules_enabled",
    "synced_rules_kinds", "synced_rules_namespaces", "closed_kinds", "closed_namespaces",
)  # fmt: skip
"""The daemon's options on which it depends what is decided."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Read a time: 20, 20s or 1.5m."""
    found = _DURATION.fullmatch(value)
    if not found:
        raise click.BadParameter(f"{value!r} is no time such as 20s or 2m", ctx, param)
    return float(found[1]) * (60.0 if found[2] == "m" else 1.0)


def home_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--kubeconfig` and `--context`."""
    function = click.option(
        "--context", "context_name", help="Context in the kubeconfig. Without it: its current one."
    )(function)
    return click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="Kubeconfig of this cluster. Without it: KUBECONFIG, else the Pod's own account, else ~/.kube/config.",
    )(function)


def daemon_options(fields: Collection[str] | None = None) -> Decorator:
    """Add a flag for rows of the table, all or some; booleans may stand without a value, as in the original."""

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


def asking_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what commands have that ask instead of running: home, time, form, and the daemon's options that matter."""
    function = daemon_options(_ASKED)(function)
    function = click.option(
        "-o", "--output", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the answer."
    )(function)
    function = click.option(
        "--wait-for-peers",
        "wait_s",
        callback=seconds,
        metavar="TIME",
        default="20s",
        show_default=True,
        help="How long to wait for our own API server, and for the other clusters.",
    )(function)
    return home_options(function)


def load_settings(ctx: click.Context, flags: Mapping[str, str | None]) -> Settings:
    """Read the daemon's options; UsageError for a wrong one."""
    try:
        return settings.load(os.environ, flags)
    except InvalidOption as error:
        raise click.UsageError(str(error), ctx) from None
