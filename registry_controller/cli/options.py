"""Options of several commands: times, and the options of the daemon."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import click

from registry_controller import settings
from registry_controller.api.errors import InvalidOption
from registry_controller.cli.failures import OptionFailure
from registry_controller.cli.global_options import Decorator, GlobalOptions
from registry_controller.settings import Settings

_NUMBER: Final = r"(\d{1,6}(?:\.\d{1,3})?)"
_DURATION: Final = re.compile(rf"{_NUMBER}|(?=.)(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?")
_DECISIVE: Final = (
    "network_name", "deletion_limit_percent", "member_left_trust_seconds", "synced_rules_enabled",
    "synced_rules_kinds", "synced_rules_namespaces", "closed_kinds", "closed_namespaces",
    "ignored_namespace_content",
)  # fmt: skip
"""The options of the daemon that decisions depend on, without the namespace."""
_GLOBAL: Final = "namespace"


def seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Parse a time into seconds: 20, 20s, 1.5m, or as kubectl takes it, 1h30m."""
    found = _DURATION.fullmatch(value)
    if not found:
        raise click.BadParameter(f"{value!r} is not a time such as 20s or 2m", ctx, param)
    return sum(float(part or 0) * factor for part, factor in zip(found.groups(), (1, 3600, 60, 1), strict=True))


def daemon_options(fields: Collection[str] | None = None) -> Decorator:
    """Add a flag for each option of the daemon, or for `fields`; a boolean needs no value, as in the original.

    `--namespace` is one of the global flags.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(settings.OPTIONS):
            if option.field == _GLOBAL or (fields is not None and option.field not in fields):
                continue
            default = f"; default {option.default!r}" if option.default else ""
            more: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if option.form == "true|false" else {}
            metavar = f"[{option.form}]" if "|" in option.form else option.form.upper()
            shown = f"{option.help} [env {option.environment}{default}]"
            function = click.option(option.flag, option.field, metavar=metavar, help=shown, **more)(function)
        return function

    return decorate


def dry_run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a dry run: the time to wait, and the options that decisions depend on."""
    function = daemon_options(_DECISIVE)(function)
    return click.option(
        "--wait-for-peers",
        "wait_s",
        callback=seconds,
        metavar="TIME",
        default="20s",
        show_default=True,
        help="Time to wait for the local API server and for the peers.",
    )(function)


def load_settings(options: GlobalOptions, flags: Mapping[str, str | None]) -> Settings:
    """Load the options of the daemon; OptionFailure for a wrong option."""
    try:
        return settings.load(os.environ, {**flags, _GLOBAL: options.namespace})
    except InvalidOption as error:
        raise OptionFailure(str(error)) from None
