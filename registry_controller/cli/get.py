"""`registry-controller get` and `watch`: show the objects of all members of a group."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import GroupKind
from registry_controller.api.selectors import parse_selector
from registry_controller.cli.failures import FAILED, run_to_end
from registry_controller.cli.global_options import Contexts, Decorator, GlobalOptions, global_options
from registry_controller.cli.options import seconds
from registry_controller.cli.output import (
    Cell,
    Form,
    Printer,
    Table,
    Tone,
    align_columns,
    hide_managers,
    object_name,
)
from registry_controller.cli.status_tables import format_age

if TYPE_CHECKING:
    from registry_controller.group import Event, Group, Object, Watch

_HEADINGS: Final = ("CLUSTER", "NAMESPACE", "NAME", "AGE", "LABELS")
_FORMS: Final = (Form.TEXT, Form.WIDE, Form.NAME, Form.JSON, Form.YAML)
_DOCUMENTS: Final = (Form.JSON, Form.YAML)
_ONLY_WIDE: Final = frozenset({"LABELS"})
_DEFAULT_NAMESPACE: Final = "default"


@dataclass(frozen=True, slots=True)
class _Question:
    """A kind, its objects, the members, and the time to wait for members in seconds."""

    resource: str
    name: str
    in_namespace: str | None
    all_namespaces: bool
    labels: str
    members: tuple[str, ...]
    wait_s: float

    @property
    def namespace(self) -> str:
        """Return the namespace of the objects; empty for all."""
        return "" if self.all_namespaces else self.in_namespace or _DEFAULT_NAMESPACE

    def asks(self, member: str) -> bool:
        """Return whether a member is asked for."""
        return not self.members or member in self.members


def _question_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select objects and members. The command gets them as one argument, `question`."""

    @functools.wraps(function)
    def command(*args: Any, **given: Any) -> Any:
        question = _Question(**{name: given.pop(name) for name in _Question.__dataclass_fields__})
        resource, slash, name = question.resource.partition("/")
        if slash and resource and name and not question.name:  # secret/hello, as `-o name` prints it
            question = replace(question, resource=resource, name=name)
        return function(*args, question=question, **given)

    options: Sequence[Decorator] = (
        click.argument("resource", metavar="RESOURCE[/NAME]"),
        click.argument("name", metavar="[NAME]", required=False, default=""),
        click.option("-n", "in_namespace", metavar="NAMESPACE", help="Namespace of the objects. [default: default]"),
        click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces."),
        click.option("-l", "--selector", "labels", metavar="SELECTOR", default="", help="Label selector."),
        click.option("--member", "members", multiple=True, metavar="NAME", help="Only this member; repeatable."),
        click.option(
            "--wait", "wait_s", callback=seconds, metavar="TIME", default="20s", show_default=True,
            help="Time to wait for members that do not answer.",
        ),
    )  # fmt: skip
    result: Callable[..., Any] = command
    for add in reversed(options):
        result = add(result)
    return result


@click.command("get")
@_question_options
@click.option("-w", "--watch", "is_watching", is_flag=True, help="Show changes, too, until Ctrl-C.")
@global_options(contexts=Contexts.MANY, forms=_FORMS, has_namespace=False)
@click.pass_context
def get_command(ctx: click.Context, /, *, options: GlobalOptions, question: _Question, is_watching: bool) -> None:
    """Show objects of one kind in all members of a group.

    RESOURCE as kubectl accepts it: pods, deploy, jobs.batch; secret/hello stands for secret hello. The members are the
    Clusters in the cluster of the current context, with the rights that they give to their peers. With several
    --context, they are the clusters of these contexts, with the rights of their users. Values of Secrets are hidden.

    For a member that does not show the kind, it reports why; for a missing right, with the ClusterRole that grants it.
    Exits 1 when a member does not answer or does not show the kind.

    \b
    Examples:
      registry-controller get pods -A
      registry-controller get secret hello -n default --member b
      registry-controller get deployments -A --context kind-a --context kind-b -o wide
    """
    _run(ctx, options, question, is_watching=is_watching)


@click.command("watch")
@_question_options
@global_options(contexts=Contexts.MANY, forms=(Form.TEXT, Form.WIDE), has_namespace=False)
@click.pass_context
def watch_command(ctx: click.Context, /, *, options: GlobalOptions, question: _Question) -> None:
    """Show objects of one kind in all members of a group, and each change, until Ctrl-C; as `get --watch`.

    \b
    Examples:
      registry-controller watch pods -A
      registry-controller watch jobs.batch -n default --context kind-a --context kind-b
    """
    _run(ctx, options, question, is_watching=True)


def _run(ctx: click.Context, options: GlobalOptions, question: _Question, *, is_watching: bool) -> None:
    if question.all_namespaces and (question.in_namespace or question.name):
        raise click.UsageError("-A goes with neither -n nor NAME", ctx)
    if is_watching and options.printer.is_for_programs:
        raise click.UsageError("--watch prints lines: it has no -o json, yaml or name", ctx)
    try:
        parse_selector(question.labels)
    except InvalidObject as error:
        raise click.UsageError(f"-l: {error}", ctx) from None
    from registry_controller.group.arguments import check_namespace, check_resource  # noqa: PLC0415  late, as below

    try:
        check_resource(question.resource)
        check_namespace(question.namespace or _DEFAULT_NAMESPACE)
    except InvalidObject as error:
        raise click.UsageError(str(error), ctx) from None
    is_whole = run_to_end(_show(options, question, is_watching=is_watching))
    if not is_whole:
        ctx.exit(FAILED)


async def _show(options: GlobalOptions, question: _Question, *, is_watching: bool) -> bool:
    """Print the objects; return whether every member has shown them."""
    from registry_controller.group import Group  # noqa: PLC0415  late: --help needs no client

    if len(options.contexts) > 1:
        group = Group.from_contexts(options.contexts, kubeconfig=options.kubeconfig)
    else:
        group = Group.from_cluster(kubeconfig=options.kubeconfig, context=options.context)
    printer = options.printer
    async with group:
        await _wait_for_members(group, question)
        watch = group.watch(
            question.resource,
            namespace=question.namespace,
            label_selector=question.labels,
            field_selector=f"metadata.name={question.name}" if question.name else "",
            metadata_only=printer.form not in _DOCUMENTS,
        )
        answer = _Answer(group, question)
        await answer.read(watch)
        answer.print_all(printer)
        if is_watching:
            async for event in watch:
                if question.asks(event.member):
                    _print_event(event, printer)
        return not answer.problems


async def _wait_for_members(group: Group, question: _Question) -> None:
    """Wait until the members are known; ClickException when they are not, or when `--member` names another one."""
    try:
        async with asyncio.timeout(question.wait_s):
            await group.wait_known()
    except TimeoutError:
        raise click.ClickException(
            f"the members of the group cannot be read: {group.problem or 'the cluster does not answer'}; "
            "for clusters without a group, give --context more than once"
        ) from None
    unknown = sorted(set(question.members) - set(group) - set(group.unreadable))
    if unknown:
        raise click.ClickException(f"--member {unknown[0]}: is no member; the members are {', '.join(group) or 'none'}")


class _Answer:
    """The objects and problems of the members, as the first events of a watch show them."""

    def __init__(self, group: Group, question: _Question) -> None:
        self.problems: dict[str, str] = {name: why for name, why in group.unreadable.items() if question.asks(name)}
        self._objects: dict[str, dict[tuple[str, str], Object]] = {name: {} for name in group if question.asks(name)}
        self._waits_for = set(self._objects)
        self._wait_s = question.wait_s

    async def read(self, watch: Watch) -> None:
        """Take events until each member has shown everything, or cannot."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._wait_s):
                while self._waits_for:
                    self._take(await anext(watch))
        for name in self._waits_for:
            self.problems[name] = f"has not answered within {self._wait_s:.0f} s"

    def _take(self, event: Event) -> None:
        held = self._objects.get(event.member)
        if held is None:
            return
        obj = event.object
        if obj is None:
            self._waits_for.discard(event.member)
            self.problems.pop(event.member, None)
            if event.reason:
                self.problems[event.member] = event.reason
        elif event.type == "DELETED":
            held.pop((obj.namespace, obj.name), None)
        else:
            held[obj.namespace, obj.name] = obj

    def print_all(self, printer: Printer) -> None:
        """Print the objects to the standard output, and the problems to the standard error."""
        found = [(name, obj) for name, held in sorted(self._objects.items()) for _, obj in sorted(held.items())]
        if printer.form is Form.NAME:
            printer.print_names(object_name(GroupKind(obj.kind.group, obj.kind.kind), obj.name) for _, obj in found)
        elif printer.is_for_programs:
            printer.print_document(self._document())
        else:
            printer.print_table(Table(_HEADINGS, [_row(name, obj) for name, obj in found], _ONLY_WIDE))
            if not found and not self.problems:
                printer.say("no member has such an object")
        for name, problem in sorted(self.problems.items()):
            printer.say(f"{name}: {problem}", Tone.BAD)

    def _document(self) -> Mapping[str, Any]:
        from registry_controller.admin.swap import redacted  # noqa: PLC0415  late, as above

        names = sorted({*self._objects, *self.problems})
        return {
            "members": [
                {
                    "name": name,
                    "problem": self.problems.get(name, ""),
                    "items": [
                        redacted(hide_managers(obj.manifest)) for _, obj in sorted(self._objects.get(name, {}).items())
                    ],
                }
                for name in names
            ]
        }


def _row(member: str, obj: Object) -> list[str | Cell]:
    labels = ",".join(f"{key}={value}" for key, value in sorted(obj.labels.items()))
    return [member, obj.namespace, obj.name, format_age(obj.created, datetime.now(UTC)), labels]


def _print_event(event: Event, printer: Printer) -> None:
    """Print a change in one line: its type, and the cells of its object."""
    if event.object is None:
        text = f"{event.member}: {event.reason}" if event.reason else f"{event.member}: {event.type.lower()}"
        printer.say(text, Tone.WARNING if event.reason else Tone.MINOR)
        return
    shown = Table(_HEADINGS, [_row(event.member, event.object)], _ONLY_WIDE)
    cells = shown.select_columns(is_wide=printer.form is Form.WIDE).rows[0]
    texts = [cell.text if isinstance(cell, Cell) else cell for cell in cells]
    printer.print_text(align_columns([[str(event.type), *(text for text in texts if text)]]))
