"""Turns HTTP answers into errors of `api.errors`.

Law: a message holds only our own words and names of fields. A server's Status may quote the object (validation does,
webhooks may), so that its text is matched, and never passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from registry_controller.api import errors
from registry_controller.api.errors import RegistryError
from registry_controller.api.meta import GVR, ObjectKey

STATUS_BYTES: Final = 64 * 1024
"""The longest Status that is read when the request had no body to quote."""

_RETRY_AFTER_CAP_S: Final = 300.0
_CAUSES: Final = 5
_FIELD: Final = re.compile(r"[\x21-\x7e]{1,160}\Z")
_REASON: Final = re.compile(r"[A-Za-z]{1,60}\Z")
_IMMUTABLE: Final = re.compile(
    r"immutable|updates to .{0,300}forbidden|forbidden: updates to |may not change|may not be changed"
    r"|cannot change role ?ref|cannot be changed|not updatable",
    re.IGNORECASE | re.DOTALL,
)
_DENIED: Final = re.compile(
    r"""(admission webhook) "([a-zA-Z0-9.-]{1,253})" denied|(ValidatingAdmissionPolicy) '([a-zA-Z0-9.-]{1,253})' with"""
)
_UNKNOWN_FIELD: Final = re.compile(r'unknown field \\?"([\x21\x23-\x5b\x5d-\x7e]{1,160})\\?"')
_UNAUTHORIZED: Final = re.compile(r'User "[^"]*" cannot ')
_REFUSALS: Final = (
    ("RightsEscalation", re.compile(r"is attempting to grant RBAC permissions not currently held()")),
    ("RightsEscalation", re.compile(r"must have cluster-admin privileges to use the aggregationRule()")),
    ("QuotaExceeded", re.compile(r"(?:exceeded quota|failed quota|status unknown for quota): ([a-z0-9.-]{1,253})\b")),
    (
        "QuotaExceeded",
        re.compile(r"(?:insufficient quota to (?:consume|match these scopes)|quota usage is negative for )()"),
    ),
    ("PodSecurityViolation", re.compile(r'violates PodSecurity "([a-z]{1,20}:[a-z0-9.]{1,20})"')),
    ("PodSecurityViolation", re.compile(r"Not allowed by PodSecurity()")),
    ("LimitRangeViolation", re.compile(r"(?:(?:maximum|minimum) \S{1,300} usage|max limit to request ratio) per ()")),
    ("ServiceAccountMissing", re.compile(r"error looking up service account ()")),
)
"""The refusals of the API server itself that are no missing right of the daemon, with a name that may be shown.

Kubernetes 1.36 has these texts.
"""
_MAY_PASS: Final = re.compile(r"\balready\b|\bexceeded\b.{0,40}\bquota\b|dry.?run", re.IGNORECASE)
"""A port or name that is taken already, a quota that is used up, a webhook or policy that does not support dry runs."""
_ROLES: Final = ("role", "roles", "clusterrole", "clusterroles")  # a lister names the singular
_TAIL: Final = 300  # characters: the server quotes the value first; the problem is at the end


class Cause(msgspec.Struct):
    """`status.details.causes[]`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct):
    """`status.details`."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: list[Cause] = []
    retry_after_s: int = msgspec.field(name="retryAfterSeconds", default=0)


class StatusAnswer(msgspec.Struct):
    """The fields of a Kubernetes Status that are read."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_STATUS: Final = msgspec.json.Decoder(StatusAnswer)


def error_of_answer(
    status: int,
    body: bytes,
    *,
    what: str,
    gvr: GVR | None = None,
    key: ObjectKey | None = None,
    retry_after: str = "",
    hint: str = "",
) -> RegistryError:
    """Turn an answer that is no success into an error.

    `what` names the request, `key` its object, and `hint` is a sentence about the connection for the message.
    """
    answer = _decode_status(body)
    if answer.code not in (status, 0):
        answer = StatusAnswer()
    error = error_of_status(status, answer, what=what, gvr=gvr, key=key, retry_after=retry_after, hint=hint)
    if isinstance(error, errors.Forbidden | errors.Invalid):
        error.may_pass = bool(_MAY_PASS.search(answer.message[:4000]))
    return error


def _decode_status(body: bytes) -> StatusAnswer:
    """Read a Status; an empty one for anything else."""
    try:
        found = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return StatusAnswer()
    return found if found.kind == "Status" else StatusAnswer()


def error_of_status(  # noqa: C901 -- one table
    status: int,
    answer: StatusAnswer,
    *,
    what: str,
    gvr: GVR | None = None,
    key: ObjectKey | None = None,
    retry_after: str = "",
    hint: str = "",
) -> RegistryError:
    """Turn a code and a Status into an error; the Status may have come inside a watch stream."""
    details = answer.details or Details()
    reason = answer.reason if _REASON.match(answer.reason) else ""
    message = f"{what}: {status} {reason}".rstrip()
    denied = _DENIED.search(answer.message[:1000])
    if denied:
        message += f" by {denied[1] or denied[3]} {denied[2] or denied[4]}"
    message += f": {hint}" if hint else ""
    wait_s = _wait(retry_after, details)
    refusal = None if denied else _find_refusal(answer.message[:4000])
    match status:
        case 401:
            return errors.Unauthorized(message, status=status, reason=reason or "Unauthorized")
        case 403:
            terminating = any(cause.reason == "NamespaceTerminating" for cause in details.causes)
            reason = "NamespaceTerminating" if terminating else reason or "Forbidden"
            message = f"{what}: 403 {reason}" if terminating else message
            if not terminating and refusal is not None:
                reason, message = refusal[0], f"{what}: 403 {' '.join(refusal).rstrip()}"
            return errors.Forbidden(
                message, status=status, reason=reason, lacks_right=bool(_UNAUTHORIZED.search(answer.message[:1000]))
            )
        case 404:
            named = answer.reason == "NotFound" and _names(details, gvr=gvr, key=key)
            if not named and _misses_role(details, gvr=gvr):
                reason, message = "RoleMissing", f"{what}: 404 RoleMissing"
            return errors.NotFound(message, names_object=named, details_kind=details.kind, reason=reason or "NotFound")
        case 405:
            is_read = what.startswith(("list ", "watch "))
            return errors.NotWatchable(message) if is_read else errors.NotServed(message)
        case 409:
            kind = errors.AlreadyExists if answer.reason == "AlreadyExists" else errors.Conflict
            return kind(message, status=status, reason=reason or "Conflict", retry_after_s=wait_s)
        case 410:
            return errors.Gone(message, status=status, reason=reason or "Expired")
        case 400 | 406 | 413 | 415 | 422:
            if status == 422 and _says_immutable(answer):
                return errors.Immutable(message + _causes(details))
            return errors.Invalid(message + _causes(details), status=status, reason=reason or "Invalid")
        case 429:
            return errors.TooManyRequests(message, status=status, reason=reason, retry_after_s=wait_s or 1.0)
        case 500 if not reason and refusal is not None:  # admission returned it without a status
            return errors.Forbidden(f"{what}: 500 {' '.join(refusal).rstrip()}", status=status, reason=refusal[0])
        case _ if status >= 500:
            return errors.ServerError(message, status=status, reason=reason, retry_after_s=wait_s)
        case _ if 400 <= status < 500:
            return errors.ApiError(message, status=status, reason=reason, retry_after_s=wait_s)
        case _:
            words = f"{what}: HTTP {status}, which no API server answers"
            return errors.ProtocolError(f"{words}: {hint}" if hint else words)


def _find_refusal(message: str) -> tuple[str, str] | None:
    """Return the reason of a refusal, and the quota or level that refused; None for any other refusal."""
    found = ((reason, pattern.search(message)) for reason, pattern in _REFUSALS)
    return next(((reason, match[1]) for reason, match in found if match is not None), None)


def _names(details: Details, *, gvr: GVR | None, key: ObjectKey | None) -> bool:
    if gvr is None or key is None or not key.name:
        return False
    return details.name == key.name and details.kind == gvr.resource and details.group == gvr.group


def _misses_role(details: Details, *, gvr: GVR | None) -> bool:
    """Report whether a write of a binding was refused because its role is missing.

    API servers give the name of the role, and mostly the resource of the binding.
    """
    is_binding = gvr is not None and gvr.resource.endswith("rolebindings")
    return is_binding and gvr is not None and bool(details.name) and details.kind in (*_ROLES, gvr.resource)


def _wait(retry_after: str, details: Details) -> float:
    """Read Retry-After in seconds (API servers never send a date), capped."""
    text = retry_after.strip()
    header_s = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    # Cut down first: JSON has numbers that no float can hold.
    return float(min(max(header_s, details.retry_after_s, 0), _RETRY_AFTER_CAP_S))


def _causes(details: Details) -> str:
    shown = [
        f"{cause.field}{f' ({cause.reason})' if _REASON.match(cause.reason) else ''}"
        for cause in details.causes[:_CAUSES]
        if _FIELD.match(cause.field)
    ]
    return f": {', '.join(shown)}" if shown else ""


def _says_immutable(answer: StatusAnswer) -> bool:
    causes = answer.details.causes if answer.details else []
    texts = [cause.message for cause in causes] or [answer.message]
    return any(_IMMUTABLE.search(text[-_TAIL:]) for text in texts)


def read_unknown_fields(warnings: Iterable[str]) -> list[str]:
    """Read from Warning headers the fields that the server's schema lacks, as `spec.ports[0].name`."""
    return [found[1] for text in warnings for found in _UNKNOWN_FIELD.finditer(text)]
