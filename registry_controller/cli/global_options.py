"""The global flags, which each command takes before or after its name."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from registry_controller.cli.output import Form, Printer

VALUE_FLAGS: Final = ("--kubeconfig", "--context", "--namespace", "-n", "--output", "-o", "--color")
"""The global flags; each has a value."""

_COLORS: Final = ("auto", "always", "never")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Contexts(Enum):
    """The number of clusters on which a command works."""

    NONE = "none"
    ONE = "one"
    MANY = "many"


class LocalConnection(NamedTuple):
    """The kubeconfig and context of a cluster; None for the defaults."""

    kubeconfig: Path | None
    context: str | None


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The values of the global flags. `namespace` is the daemon's; None stands for the option NAMESPACE."""

    kubeconfig: Path | None = None
    contexts: tuple[str, ...] = ()
    namespace: str | None = None
    form: Form = Form.TEXT
    color: str = "auto"

    @property
    def context(self) -> str | None:
        """Return the context of a command that works on one cluster; None stands for the current one."""
        return self.contexts[0] if self.contexts else None

    @property
    def connection(self) -> LocalConnection:
        """Return the connection of a command that works on one cluster."""
        return LocalConnection(self.kubeconfig, self.context)

    @property
    def connections(self) -> Sequence[LocalConnection]:
        """Return a connection for each `--context`, in their order; without one, that of the current context."""
        return [LocalConnection(self.kubeconfig, context) for context in self.contexts or (None,)]

    @property
    def printer(self) -> Printer:
        """Return the printer of the command's answer."""
        return Printer(self.form, color=self.color)


def global_options(
    *, contexts: Contexts = Contexts.ONE, forms: Sequence[Form] = (), has_namespace: bool = True
) -> Decorator:
    """Add the global flags. The command gets their values as one argument, `options`.

    `forms` are the output forms of the command; the first is its default. A command without forms has no `--output`.
    A command whose `-n` is the namespace of an object has `has_namespace=False`: its `--namespace` stays the daemon's.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(
            *args: Any,
            kubeconfig: Path | None,
            contexts: tuple[str, ...],
            namespace: str | None,
            color: str,
            form: str = Form.TEXT.value,
            **rest: Any,
        ) -> Any:
            values = GlobalOptions(kubeconfig, contexts, namespace, Form(form), color)
            return function(*args, options=values, **rest)

        result: Callable[..., Any] = command
        for add in reversed(_list_flags(contexts, forms, has_namespace=has_namespace)):
            result = add(result)
        return result

    return decorate


def _list_flags(contexts: Contexts, forms: Sequence[Form], *, has_namespace: bool) -> Sequence[Decorator]:
    is_hidden = contexts is Contexts.NONE  # accepted and without effect, because they are global
    many = "Repeat it for each cluster; default: the" if contexts is Contexts.MANY else "Default: its"
    flags = [
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            hidden=is_hidden,
            help="Kubeconfig of this cluster; default: KUBECONFIG, else the Pod's ServiceAccount, else ~/.kube/config.",
        ),
        click.option(
            "--context",
            "contexts",
            multiple=True,
            metavar="NAME",
            hidden=is_hidden,
            shell_complete=_complete_context,
            callback=_check_one if contexts is Contexts.ONE else _check_names,
            help=f"Context in the kubeconfig. {many} current context.",
        ),
        click.option(
            *(("-n",) if has_namespace else ()),
            "--namespace",
            "namespace",
            metavar="NAME",
            hidden=is_hidden,
            help="Namespace of the daemon. [env NAMESPACE; default 'cluster-registry']",
        ),
        click.option(
            "--color",
            type=click.Choice(_COLORS),
            default="auto",
            show_default=True,
            help="Colors: auto uses them on a terminal, unless NO_COLOR is set or TERM is dumb.",
        ),
    ]
    if forms:
        names = [form.value for form in forms]
        flags.append(
            click.option(
                "-o", "--output", "form", type=click.Choice(names), default=names[0], show_default=True,
                help="Form of the answer.",
            )
        )  # fmt: skip
    return flags


def _check_one(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > 1:
        raise click.UsageError(f"{ctx.info_name} works on one cluster: give --context once", ctx)
    return _check_names(ctx, param, value)


def _check_names(ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if "" in value:  # such as from a variable of a script that is not set
        raise click.UsageError("--context is empty: name a context of the kubeconfig, or leave the flag out", ctx)
    return value


def _complete_context(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """List the contexts of the kubeconfig for the shell; nothing for a kubeconfig that cannot be read."""
    import yaml  # noqa: PLC0415  only a completion needs it here

    files = str(ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config")
    names: dict[str, None] = {}
    for file in filter(None, files.split(os.pathsep)):
        with contextlib.suppress(OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
            found = yaml.safe_load(Path(file).expanduser().read_text(encoding="utf-8"))
            names |= dict.fromkeys(str(context["name"]) for context in found["contexts"])
    return [name for name in names if name.startswith(incomplete)]


def split_global_flags(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line into the global flags before the command, and the rest."""
    index = 0
    while index < len(args) and (length := _length_of_flag(args[index])):
        index += length
    return list(args[:index]), list(args[index:])


def _length_of_flag(word: str) -> int:
    """Return the number of words of a global flag; 0 for another word."""
    if word in VALUE_FLAGS:
        return 2
    name, equals, _ = word.partition("=")
    is_joined = bool(equals) and name in VALUE_FLAGS
    is_attached = word[:2] in VALUE_FLAGS and len(word) > 2 and word[1] != "-"
    return 1 if is_joined or is_attached else 0
