"""The ends of a command that failed, and the exit codes: a failure prints its message, and no usage."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import click

from registry_controller.api.errors import Forbidden, InvalidOption, RegistryError
from registry_controller.api.names import RIGHTS_COMMAND

OK: Final = 0
FAILED: Final = 1
"""The command could not do its work, or its answer is a problem."""
WRONG_OPTION: Final = 2
"""The command line, an option in the environment, or the kubeconfig is wrong: nothing was done."""

_T = TypeVar("_T")


class OptionFailure(click.ClickException):
    """An option that is wrong by its value: a variable of the environment, a kubeconfig."""

    exit_code = WRONG_OPTION


def run_to_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Run the work of a command. OptionFailure for a wrong kubeconfig, ClickException for an error of an API server."""
    try:
        return asyncio.run(work)
    except InvalidOption as error:
        raise OptionFailure(str(error)) from None
    except RegistryError as error:
        raise click.ClickException(explain_error(error)) from None
    except ExceptionGroup as errors:  # a Group of members fails as a task group does
        wrong, others = errors.split(InvalidOption)
        if wrong is None or others is not None:
            raise
        raise OptionFailure(str(wrong.exceptions[0])) from None


def name_context(text: str, context: str | None) -> str:
    """Return a message with the name of its context before it, unless it begins with that."""
    place = f"context {context}" if context else "the current context"
    return text if text.startswith(place) else f"{context or 'current context'}: {text}"


def explain_error(error: RegistryError) -> str:
    """Return the message for an error of the API server; for a missing right, with the user that needs it."""
    if isinstance(error, Forbidden) and error.lacks_right:
        return (
            f"cannot {error}; grant it to the user of the kubeconfig, or name another --context; "
            f"`{RIGHTS_COMMAND}` prints the rights that rules need"
        )
    return str(error)
