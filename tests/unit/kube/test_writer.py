"""The writes to the local API server: what an error is about."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry_controller.api.errors import NotFound
from registry_controller.api.meta import GVR, ObjectKey
from registry_controller.kube.translate import error_of_answer
from registry_controller.kube.writer import Writer

BINDINGS = GVR("rbac.authorization.k8s.io", "v1", "rolebindings", True)
DETAILS = {"name": "absent", "group": BINDINGS.group, "kind": "rolebindings"}
ANSWER = json.dumps({"kind": "Status", "code": 404, "reason": "NotFound", "details": DETAILS}).encode()


class Refusing:
    """A transport whose every request the API server answers in the same way."""

    async def send(self, *_: Any, what: str, **request: Any) -> bytes:
        raise error_of_answer(404, ANSWER, what=what, gvr=request.get("gvr"), key=request.get("key"))


@pytest.mark.clause("S3")
@pytest.mark.parametrize("verb", ["create", "replace"])
async def test_a_binding_whose_role_is_missing_is_told_from_a_missing_binding(verb: str) -> None:
    transport: Any = Refusing()
    writer = Writer(transport)
    creation = writer.create(BINDINGS, "default", b"{}")
    call = creation if verb == "create" else writer.replace(BINDINGS, ObjectKey("default", "bound"), b"{}")
    with pytest.raises(NotFound) as caught:
        await call
    assert (caught.value.reason, caught.value.names_object) == ("RoleMissing", False)
    creation.close()
