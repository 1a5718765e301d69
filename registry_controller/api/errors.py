"""Errors of the daemon. The class of an error states whose fault it is, and whether a later retry can succeed.

The classes, whose fault they are, and whether they are transient: whether a retry can succeed although no person acts.

RegistryError            none           yes  base of all errors that the daemon raises deliberately
  BadInput               author         no   a person wrote something wrong; the message names the place
    InvalidOption        author         no   an option of the daemon; the start fails
    InvalidObject        author         no   a field of a Cluster, ClusterFeature or ResourceSyncRule
      Mistake            program        no   a bug of this program, triggered by an object
    InvalidKubeconfig    author         no   the credentials of a peer
  ApiError               server         yes  an error response of an API server; `.status` is the HTTP code
    Unauthorized         administrator  yes  401: the credentials are wrong or expired; new ones may arrive
    Forbidden            administrator  no   403: a right is missing, or admission refuses the request
    NotFound             none           no   404; `.names_object` when the response itself names the missing object
    Conflict             none           yes  409: another client was faster; read again
      AlreadyExists      none           yes  409 to a create
    Gone                 none           yes  410: the history is compacted; list again
    Invalid              author         no   400, 406, 413, 415, 422: the server refuses this object
      Immutable          author         no   422: a field may not change; the object must be created again
    TooManyRequests      server         yes  429: wait for `.retry_after_s`
    ServerError          server         yes  5xx
  NotYet                 none           yes  the daemon itself postpones the work by `.retry_after_s`
    Contested            administrator  yes  another client in this cluster keeps changing a copy
    ChangesTooOften      author         yes  members keep changing their rules
    DeletionPending      server         yes  the deletion of a container has no answer yet
  Unreachable            network        yes  no response: connection, TLS handshake or timeout
  NotServed              administrator  no   the API server does not serve the kind
    NotWatchable         author         no   the API server serves the kind, and cannot list or watch it
  ProtocolError          server         no   a response that no Kubernetes API server sends
    TooMuch              server         no   more bytes, objects or pages than the daemon reads from one server
"""

from __future__ import annotations

import enum
from types import TracebackType
from typing import ClassVar, Self


class Party(enum.Enum):
    """The party whose fault an error is."""

    AUTHOR = "author"
    """Wrote the option, the object or the kubeconfig."""
    ADMINISTRATOR = "administrator"
    """Runs the cluster: grants rights, installs kinds, runs other controllers."""
    SERVER = "server"
    """The API server, or a proxy or webhook of the API server."""
    NETWORK = "network"
    PROGRAM = "program"
    """This program."""
    NONE = "none"
    """Expected during normal operation."""


class RegistryError(Exception):
    """Base of all errors that the daemon raises deliberately. Messages never contain data of an object."""

    fault: ClassVar[Party] = Party.NONE
    is_transient: ClassVar[bool] = True
    retry_after_s: float = 0.0
    """The minimum wait before a retry; 0 leaves the wait to the caller's backoff."""

    def without_traceback(self) -> Self:
        """Drop the traceback and the causes before the error is stored: their frames refer to whole objects."""
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


class BadInput(RegistryError):
    """A person wrote something wrong; a retry without an edit fails again."""

    fault = Party.AUTHOR
    is_transient = False


class InvalidOption(BadInput):
    """An option of the daemon is wrong; the message names the option."""


class InvalidObject(BadInput):
    """A field of a Cluster, ClusterFeature or ResourceSyncRule is wrong.

    `path` is the field's path in Kubernetes' form (`spec.rules[0].match[1].content[0].key`).
    """

    def __init__(self, path: str, message: str, *, reason: str = "Invalid") -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message
        self.reason = reason


class Mistake(InvalidObject):
    """A bug of this program that an object, or a rule for this object, triggers.

    Both may come from another cluster. The bug is reported for that object alone, and the daemon goes on.
    """

    fault = Party.PROGRAM

    @classmethod
    def of(cls, error: Exception, *, path: str) -> Self:
        """Convert an unexpected exception. The message has its place in the program; its text may contain data."""
        place = _place_of(error.__traceback__)
        return cls(path, f"cannot be evaluated: a bug in this program{place}; please report it", reason="Mistake")


def _place_of(trace: TracebackType | None) -> str:
    """Return ` at MODULE:LINE` for the innermost frame of this program in a traceback; empty without such a frame."""
    place = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module.startswith("registry_controller."):
            place = f" at {module.removeprefix('registry_controller.')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


class InvalidKubeconfig(BadInput):
    """A peer's kubeconfig cannot or must not be used; the message names the field, never its value."""


class ApiError(RegistryError):
    """An API server responded with an error. `status` is the HTTP code, `reason` the Status object's reason.

    `may_pass` is true for a refusal that may be due to another object that is there, to a quota, or to a dry run, and
    not to the sent object alone.
    """

    fault = Party.SERVER
    may_pass: bool = False

    def __init__(self, message: str, *, status: int = 0, reason: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class Unauthorized(ApiError):
    """401."""

    fault = Party.ADMINISTRATOR


class Forbidden(ApiError):
    """403. `lacks_right` is true if the authorizer refused, not a webhook, a quota or a terminating namespace.

    `reason` names what refused, where that is known: one of `REFUSALS` in `report.reasons`.
    """

    fault = Party.ADMINISTRATOR
    is_transient = False

    def __init__(
        self, message: str, *, status: int = 403, reason: str = "Forbidden", lacks_right: bool = False
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.lacks_right = lacks_right


class NotFound(ApiError):
    """404. `names_object` is true if the response is a Status whose details name the requested object."""

    fault = Party.NONE
    is_transient = False

    def __init__(
        self, message: str, *, names_object: bool = False, details_kind: str = "", reason: str = "NotFound"
    ) -> None:
        super().__init__(message, status=404, reason=reason)
        self.names_object = names_object
        self.details_kind = details_kind


class Conflict(ApiError):
    """409: the object has changed since the read, or a precondition failed."""

    fault = Party.NONE


class AlreadyExists(Conflict):
    """409 to a create."""


class Gone(ApiError):
    """410: the resourceVersion is too old; list again."""

    fault = Party.NONE


class Invalid(ApiError):
    """400, 406, 413, 415, 422: the server refuses the object in this form."""

    fault = Party.AUTHOR
    is_transient = False

    def __init__(self, message: str, *, status: int = 422, reason: str = "Invalid") -> None:
        super().__init__(message, status=status, reason=reason)


class Immutable(Invalid):
    """422: a field may not change. `managers` are the field managers whose changes the refused write reverts.

    `kept` are fields of a former state that the server keeps when the object is replaced; it refuses nothing then.
    """

    def __init__(self, message: str, *, managers: tuple[str, ...] = (), kept: tuple[str, ...] = ()) -> None:
        super().__init__(message, reason="Immutable")
        self.managers = managers
        self.kept = kept


class TooManyRequests(ApiError):
    """429."""


class ServerError(ApiError):
    """5xx."""


class NotYet(RegistryError):
    """The daemon postpones the work by `retry_after_s`; nothing has failed."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Contested(NotYet):
    """Another client in this cluster keeps changing a copy."""

    fault = Party.ADMINISTRATOR


class ChangesTooOften(NotYet):
    """Members keep changing their rules."""

    fault = Party.AUTHOR


class DeletionPending(NotYet):
    """The API server may still carry out the deletion of the Namespace, or definition, into which a copy is to come."""

    fault = Party.SERVER


class Unreachable(RegistryError):
    """No response: the connection, the TLS handshake or the wait failed."""

    fault = Party.NETWORK


class NotServed(RegistryError):
    """The API server does not serve the kind at present. `similar` is a kind of the same version; empty without one."""

    fault = Party.ADMINISTRATOR
    is_transient = False

    def __init__(self, message: str, *, similar: str = "") -> None:
        super().__init__(message)
        self.similar = similar


class NotWatchable(NotServed):
    """The API server serves the kind, and cannot list or watch it: no rule can read it."""

    fault = Party.AUTHOR


class ProtocolError(RegistryError):
    """The server sent a response that no Kubernetes API server sends."""

    fault = Party.SERVER
    is_transient = False


class TooMuch(ProtocolError):
    """The server sent more bytes, objects or pages than the daemon reads from one server."""
