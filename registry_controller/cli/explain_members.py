"""Prints the explanations of one object in several members: a line for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from registry_controller.api.errors import InvalidOption, RegistryError
from registry_controller.cli.dry_run import DryRunCommand
from registry_controller.cli.failures import explain_error
from registry_controller.cli.output import Cell, Printer, Table, Tone
from registry_controller.planner.dry_run import DryRun
from registry_controller.planner.explain import Explanation
from registry_controller.planner.member_view import MemberView, ObjectState, view_object
from registry_controller.planner.output import ClusterNames, build_explanation_document

_HEADINGS: Final = ("CONTEXT", "MEMBER", "OWNER", "STATE", "SINCE", "WHY")
_TONES: Final = {
    ObjectState.OWNED: Tone.GOOD,
    ObjectState.IN_STEP: Tone.GOOD,
    ObjectState.LEFT: Tone.MINOR,
    ObjectState.FAILING: Tone.BAD,
    ObjectState.UNKNOWN: Tone.BAD,
}

Ask = Callable[[DryRun], Awaitable[tuple[Explanation, ClusterNames]]]


@dataclass(frozen=True, slots=True)
class MemberAnswer:
    """The answer of one context; without an explanation, the view has the reason."""

    context: str
    view: MemberView
    document: Mapping[str, Any] | None = None
    is_found: bool = False


def explain_members(commands: Sequence[DryRunCommand], ask: Ask, printer: Printer) -> bool:
    """Explain the object in each context, at once. Return whether each answered, and one has the object."""

    async def answer_all() -> Sequence[MemberAnswer]:
        return await asyncio.gather(*(_answer(command, ask) for command in commands))

    with printer.progress(f"reading {len(commands)} clusters and their peers"):
        found = asyncio.run(answer_all())
    if printer.is_for_programs:
        printer.print_document({"members": [_build_document(one) for one in found]})
    else:
        printer.print_table(Table(_HEADINGS, [_build_row(one) for one in found]))
    return all(one.document is not None for one in found) and any(one.is_found for one in found)


async def _answer(command: DryRunCommand, ask: Ask) -> MemberAnswer:
    context = command.connection.context or ""

    async def answer(dry_run: DryRun) -> MemberAnswer:
        found, names = await ask(dry_run)
        view = await view_object(found, dry_run.engine, names)
        return MemberAnswer(context, view, build_explanation_document(found, names), found.is_found)

    try:
        return await command.ask_async(answer)
    except click.ClickException as error:
        message = error.format_message()
    except InvalidOption as error:
        message = str(error)
    except RegistryError as error:
        message = explain_error(error)
    return MemberAnswer(context, MemberView("", "", ObjectState.UNKNOWN, why=message))


def _build_row(one: MemberAnswer) -> list[str | Cell]:
    view = one.view
    state = Cell(view.state.value, _TONES.get(view.state, Tone.WARNING))
    return [one.context, view.cluster, view.owner, state, view.since, view.why]


def _build_document(one: MemberAnswer) -> Mapping[str, Any]:
    view = one.view
    return {
        "context": one.context,
        "member": view.cluster or None,
        "owner": view.owner or None,
        "state": view.state.value,
        "since": view.since or None,
        "why": view.why or None,
        "explanation": one.document,
    }
