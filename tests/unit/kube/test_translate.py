"""Answers of API servers become our errors, and never say what an object holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry_controller.api import errors, meta
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.failures import PEER, error_of_failure
from registry_controller.kube.translate import error_of_answer, read_unknown_fields

SECRET = "do-not-show"
KEY = ObjectKey("default", "a")


def status(code: int, *, reason: str = "", message: str = "", **details: Any) -> bytes:
    found = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return json.dumps(found | {"reason": reason, "message": message, "details": details}).encode()


def translate(code: int, body: bytes, **options: Any) -> errors.RegistryError:
    return error_of_answer(code, body, what="get a", gvr=meta.SECRETS, key=KEY, **options)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.Invalid),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.NotServed),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (413, "RequestEntityTooLarge", errors.Invalid),
        (418, "", errors.ApiError),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (504, "Timeout", errors.ServerError),
        (302, "", errors.ProtocolError),
        (101, "", errors.ProtocolError),
    ],
)
@pytest.mark.parametrize("as_text", [False, True], ids=["status", "text"])
def test_a_code_is_a_class_of_error(code: int, reason: str, kind: type[Exception], as_text: bool) -> None:
    if as_text and kind is errors.AlreadyExists:
        kind = errors.Conflict
    body = SECRET.encode() if as_text else status(code, reason=reason, message=SECRET)
    found = translate(code, body)
    assert type(found) is kind
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    ("details", "named"),
    [
        ({"name": "a", "kind": "secrets"}, True),
        ({"name": "b", "kind": "secrets"}, False),
        ({"name": "a", "kind": "configmaps"}, False),
        ({"name": "a", "kind": "secrets", "group": "example.test"}, False),
        ({"name": "default", "kind": "namespaces"}, False),
        ({}, False),
    ],
)
def test_absence_is_proven_only_by_an_answer_that_names_the_object(details: dict[str, str], named: bool) -> None:
    found = translate(404, status(404, reason="NotFound", **details))
    assert isinstance(found, errors.NotFound)
    assert found.names_object is named
    assert found.details_kind == details.get("kind", "")


def test_a_page_that_is_no_status_proves_nothing() -> None:
    found = translate(404, b"404 page not found")
    assert isinstance(found, errors.NotFound)
    assert not found.names_object


def test_a_refusal_names_fields_and_not_values() -> None:
    cause = {"reason": "FieldValueInvalid", "message": f'Invalid value: "{SECRET}": bad', "field": "data[x]"}
    found = translate(422, status(422, reason="Invalid", message=SECRET, causes=[cause]))
    assert "data[x] (FieldValueInvalid)" in str(found)
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    ("message", "immutable"),
    [
        ('Invalid value: "x": field is immutable', True),
        ("Forbidden: field is immutable when `immutable` is set", True),
        ("Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden", True),
        ("Forbidden: pod updates may not change fields other than `spec.containers[*].image`", True),
        ('Invalid value: []string{"10.0.0.1"}: may not change once set', True),
        ('Invalid value: {"kind":"Role"}: cannot change roleRef', True),
        ("Forbidden: spec is immutable after creation except resources.requests", True),
        ("Forbidden: may not be changed in an update.", True),
        ('Invalid value: "x": must be a valid label', False),
        ("Required value", False),
        ('Invalid value: "field is immutable' + "x" * 400 + '": too long', False),
    ],
)
def test_what_may_not_change_is_told_apart(message: str, immutable: bool) -> None:
    found = translate(422, status(422, reason="Invalid", causes=[{"message": message, "field": "spec"}]))
    assert isinstance(found, errors.Invalid)
    assert isinstance(found, errors.Immutable) is immutable


def test_a_terminating_namespace_is_a_reason() -> None:
    found = translate(403, status(403, reason="Forbidden", causes=[{"reason": "NamespaceTerminating"}]))
    assert isinstance(found, errors.Forbidden)
    assert found.reason == "NamespaceTerminating"


@pytest.mark.parametrize(
    "words",
    [
        'admission webhook "policy.example.test" denied the request: {}',
        "it is forbidden: ValidatingAdmissionPolicy 'policy.example.test' with binding 'b' denied request: {}",
    ],
)
def test_who_denied_is_named_and_not_quoted(words: str) -> None:
    found = translate(403, status(403, message=words.format(SECRET)))
    assert "policy.example.test" in str(found)
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    ("header", "details", "wait_s"),
    [("7", 0, 7.0), ("", 3, 3.0), ("", 0, 1.0), ("soon", 0, 1.0), ("99999", 0, 300.0), ("-5", 2, 2.0),
     ("", 10**400, 300.0), ("", -(10**400), 1.0)],
)  # fmt: skip
def test_retry_after_is_read_and_capped(header: str, details: int, wait_s: float) -> None:
    found = translate(429, status(429, retryAfterSeconds=details), retry_after=header)
    assert isinstance(found, errors.TooManyRequests)
    assert found.retry_after_s == wait_s


def test_a_lost_connection_says_no_more_than_its_kind() -> None:
    found = error_of_failure(ConnectionResetError(SECRET), what="get a", server="https://a.test", source=PEER)
    assert isinstance(found, errors.Unreachable)
    assert SECRET not in str(found)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"kind":"Status","details":5}', b"\xff", b"[" * 100_000])
def test_nonsense_is_translated_too(body: bytes) -> None:
    assert isinstance(translate(500, body), errors.ServerError)


@pytest.mark.parametrize(
    ("words", "lacks_right"),
    [
        ('configmaps "x" is forbidden: User "system:serviceaccount:a:b" cannot create resource "configmaps"', True),
        ('configmaps "x" is forbidden: exceeded quota: q, requested: count/configmaps=1', False),
        ('admission webhook "w.example" denied the request: User "x" may not', False),
    ],
)
def test_a_missing_right_is_told_from_other_refusals(words: str, lacks_right: bool) -> None:
    """S3."""
    found = translate(403, status(403, message=words))
    assert isinstance(found, errors.Forbidden)
    assert found.lacks_right is lacks_right


@pytest.mark.parametrize(
    ("warning", "fields"),
    [
        ('299 - "unknown field \\"spec.colour\\""', ["spec.colour"]),
        ('299 - "unknown field \\"spec.ports[0].x\\", unknown field \\"status.y\\""', ["spec.ports[0].x", "status.y"]),
        ('299 - "policy/v1beta1 PodSecurityPolicy is deprecated in v1.21+"', []),
        ('299 - "duplicate field \\"spec.colour\\""', []),
        ('299 - "unknown field \\"' + "x" * 200 + '\\""', []),
        ("", []),
    ],
)
def test_the_fields_that_a_schema_lacks_are_read_from_warnings(warning: str, fields: list[str]) -> None:
    """A10."""
    assert read_unknown_fields([warning]) == fields


ROLE = GVR("rbac.authorization.k8s.io", "v1", "rolebindings", True)


@pytest.mark.parametrize(
    ("words", "reason", "shown"),
    [
        (
            'clusterroles.rbac.authorization.k8s.io "x" is forbidden: user "u" (groups=["g"]) is attempting to grant '
            'RBAC permissions not currently held:\n{APIGroups:[""], Resources:["SECRET"], Verbs:["get"]}',
            "RightsEscalation", "",
        ),
        (
            'clusterroles.rbac.authorization.k8s.io "x" is forbidden: must have cluster-admin privileges to use the '
            "aggregationRule", "RightsEscalation", "",
        ),
        ('pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1', "QuotaExceeded", "small"),
        ('pods "x" is forbidden: failed quota: small: must specify cpu for: SECRET', "QuotaExceeded", "small"),
        ('pods "x" is forbidden: status unknown for quota: small, resources: SECRET', "QuotaExceeded", "small"),
        ('pods "x" is forbidden: insufficient quota to consume: SECRET', "QuotaExceeded", ""),
        ('pods "x" is forbidden: quota usage is negative for resource(s): SECRET', "QuotaExceeded", ""),
        ('pods "x" is forbidden: insufficient quota to match these scopes: [{SECRET}]', "QuotaExceeded", ""),
        ('pods "x" is forbidden: Not allowed by PodSecurity', "PodSecurityViolation", ""),
        (
            'pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged (container "SECRET" must not)',
            "PodSecurityViolation", "restricted:latest",
        ),
        ('pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2', "LimitRangeViolation", ""),
        ('pods "x" is forbidden: [minimum memory usage per Pod is 1Gi, but SECRET]', "LimitRangeViolation", ""),
        ('pods "x" is forbidden: cpu max limit to request ratio per Pod is 1, but', "LimitRangeViolation", ""),
        ('pods "x" is forbidden: error looking up service account ns/sa: serviceaccount', "ServiceAccountMissing", ""),
        ('admission webhook "w.example" denied the request: exceeded quota: SECRET', "Forbidden", "w.example"),
        ('pods "x" is forbidden: SECRET', "Forbidden", ""),
    ],
)  # fmt: skip
def test_a_refusal_keeps_its_kind_and_is_not_quoted(words: str, reason: str, shown: str) -> None:
    """S3, A6."""
    found = translate(403, status(403, reason="Forbidden", message=words.replace("SECRET", SECRET)))
    assert isinstance(found, errors.Forbidden)
    assert (found.reason, found.lacks_right) == (reason, False)
    assert shown in str(found)
    assert SECRET not in str(found)


@pytest.mark.parametrize(
    ("reason", "words", "found"),
    [
        ("", "insufficient quota to match these scopes: [{PriorityClass In [SECRET]}]", "QuotaExceeded"),
        ("InternalError", "Internal error occurred: exceeded quota: SECRET", "InternalError"),
        ("", "exceeded patience", ""),
    ],
)
def test_a_refusal_without_a_status_of_its_own_keeps_its_kind_too(reason: str, words: str, found: str) -> None:
    """S3: admission returned a plain error, which an API server answers with 500 and no reason."""
    error = translate(500, status(500, reason=reason, message=words.replace("SECRET", SECRET)))
    assert isinstance(error, errors.Forbidden if found == "QuotaExceeded" else errors.ServerError)
    assert error.reason == found
    assert SECRET not in str(error)


def test_a_refusal_that_may_be_due_to_what_is_there_is_told_from_others() -> None:
    """A2: in the words of API servers and of webhooks."""
    passing = {
        'configmaps "a" is forbidden: exceeded quota: small, requested: count/configmaps=1': 403,
        'admission webhook "r" denied the request: exceeded hierarchical quota in namespace "top"': 403,
        'priorityclasses "a" is forbidden: PriorityClass b is already marked as default': 403,
        'Service "a" is invalid: spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated': 422,
        'admission webhook "w.example" does not support dry run': 400,
        "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: request.dryRun != true": 422,
    }
    lasting = {
        'admission webhook "w.example" denied the request: no': 400,
        "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: object.x": 422,
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged': 403,
        'pods "a" is forbidden: failed quota: small: must specify limits.cpu': 403,
    }
    for words, code in (passing | lasting).items():
        error = translate(code, status(code, message=words))
        assert isinstance(error, errors.Forbidden | errors.Invalid)
        assert error.may_pass is (words in passing), words


@pytest.mark.parametrize("kind", ["clusterrole", "clusterroles", "rolebindings"])
@pytest.mark.parametrize("key", [None, ObjectKey("ns", "bound")])
@pytest.mark.parametrize(("gvr", "reason"), [(ROLE, "RoleMissing"), (ROLE._replace(resource="pods"), "NotFound")])
def test_a_role_that_a_binding_misses_is_told_from_a_missing_binding(
    gvr: GVR, reason: str, key: ObjectKey | None, kind: str
) -> None:
    """S3: Kubernetes 1.36 says that the rolebinding of the role's name is missing."""
    body = status(404, reason="NotFound", kind=kind, name="x", group=gvr.group)
    found = error_of_answer(404, body, what="create rolebindings", gvr=gvr, key=key)
    assert isinstance(found, errors.NotFound)
    assert (found.reason, found.names_object) == (reason, False)


def test_a_binding_that_is_missing_and_one_without_a_namespace_miss_no_role() -> None:
    """S3, A3."""
    for kind, name in (("rolebindings", "bound"), ("namespaces", "ns")):
        body = status(404, reason="NotFound", kind=kind, name=name, group=ROLE.group if name == "bound" else "")
        found = error_of_answer(404, body, what="update rolebindings", gvr=ROLE, key=ObjectKey("ns", "bound"))
        assert isinstance(found, errors.NotFound)
        assert (found.reason, found.names_object) == ("NotFound", name == "bound")


def test_a_kind_that_cannot_be_watched_is_served() -> None:
    """R2."""
    assert isinstance(error_of_answer(405, status(405), what="watch bindings.v1"), errors.NotWatchable)
    assert not isinstance(error_of_answer(405, status(405), what="update bindings.v1"), errors.NotWatchable)
