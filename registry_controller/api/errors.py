"""Errors, by whose fault they are and what to do about them.

RegistryError
  BadInput            somebody wrote something wrong: say where, wait for the edit
    InvalidOption       an option of the daemon; ends the start
    InvalidObject       a field of one of our own kinds
      Mistake             a bug of this program that one object brings out: the others go on
    InvalidKubeconfig   a peer's credentials
  ApiError            an API server's answer; `.status` is the HTTP code
    Unauthorized        401: credentials are wrong or gone
    Forbidden           403: a right is missing; heals when somebody grants it
    NotFound            404: with `.names_object` when the answer itself names what is missing
    Conflict            409: somebody was faster; read again
      AlreadyExists
    Gone                410: history is compacted; list again
    Invalid             422: refused by validation; wait for a change
      Immutable         a field of it may not change: make it anew, or say so
    TooManyRequests     429: wait for `.retry_after_s`
    ServerError         5xx
  Contested           somebody here keeps changing a copy: wait for `.retry_after_s`
  Unreachable         no answer at all: connection, TLS, or timeout
  NotServed           the server does not serve that kind
  ProtocolError       an answer that is not what Kubernetes would say
    TooMuch             more than is taken of one server; asked again rarely
"""

from __future__ import annotations

from types import TracebackType
from typing import Self


class RegistryError(Exception):
    """Base of everything the daemon raises on purpose. Messages never hold data of an object."""

    def bare(self) -> Self:
        """Forget where this was raised and what led to it, before it is kept: the frames there hold whole objects."""
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


class BadInput(RegistryError):
    """Something that a person wrote is wrong; trying again changes nothing."""


class InvalidOption(BadInput):
    """An option is wrong; the message names it."""


class InvalidObject(BadInput):
    """A field of one of our own kinds is wrong.

    `path` spells the field as Kubernetes does (`spec.rules[0].match[1].content[0].key`).
    """

    def __init__(self, path: str, message: str, *, reason: str = "Invalid") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
        self.reason = reason


class Mistake(InvalidObject):
    """A bug of this program that an object, or a rule on it, brings out.

    Both may be a stranger's: it is said of that object, and ends nothing.
    """

    @classmethod
    def of(cls, error: Exception, *, path: str) -> Self:
        """Speak of an error that nobody raised on purpose: its kind and place; its words may hold data."""
        where = _deepest(error.__traceback__)
        words = f"cannot be evaluated: {type(error).__name__}{where}, a mistake of this program: please report it"
        return cls(path, words, reason="Mistake")


def _deepest(trace: TracebackType | None) -> str:
    """Spell the last line of this program's own that a traceback goes through."""
    where = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module.startswith("registry_controller."):
            where = f" at {module.removeprefix('registry_controller.')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where


class InvalidKubeconfig(BadInput):
    """A peer's kubeconfig cannot or must not be used; the message names the field, never its value."""


class ApiError(RegistryError):
    """An API server answered with an error."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403. `lacks_right` is true when an authorizer said so, and not a webhook, a quota or an ending namespace."""

    def __init__(
        self, message: str, *, status: int = 403, reason: str = "Forbidden", lacks_right: bool = False
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.lacks_right = lacks_right


class NotFound(ApiError):
    """404. `names_object` is true when the answer is a Status whose details name the object asked for."""

    def __init__(
        self, message: str, *, names_object: bool = False, details_kind: str = "", reason: str = "NotFound"
    ) -> None:
        super().__init__(message, status=404, reason=reason)
        self.names_object = names_object
        self.details_kind = details_kind


class Conflict(ApiError):
    """409: the object changed since it was read, or a precondition failed."""


class AlreadyExists(Conflict):
    """409 to a create."""


class Gone(ApiError):
    """410: the resourceVersion is too old; list again."""


class Invalid(ApiError):
    """400, 413, 422: the server refuses this object as it is."""

    def __init__(self, message: str, *, status: int = 422, reason: str = "Invalid") -> None:
        super().__init__(message, status=status, reason=reason)


class Immutable(Invalid):
    """422: a field of it may not change. `managers` are those whose changes the refused write was to undo."""

    def __init__(self, message: str, *, managers: tuple[str, ...] = ()) -> None:
        super().__init__(message, reason="Immutable")
        self.managers = managers


class TooManyRequests(ApiError):
    """429."""


class ServerError(ApiError):
    """5xx."""


class NotYet(RegistryError):
    """It is to be done later, by our own choice."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Contested(NotYet):
    """Somebody here keeps changing what we write."""


class ChangesTooOften(NotYet):
    """Members keep changing their rules."""


class Unreachable(RegistryError):
    """No answer: the connection, the TLS handshake or the wait failed."""


class NotServed(RegistryError):
    """The API server does not serve that kind (now)."""


class ProtocolError(RegistryError):
    """The server answered with something that no Kubernetes API server says."""


class TooMuch(ProtocolError):
    """The server answered with more than is taken of one server: bytes, objects or pages."""
