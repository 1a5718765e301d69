"""A10, A2: what the API server is asked about a copy, and what a refusal means."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry_controller.api import meta
from registry_controller.api.errors import ApiError, Forbidden, Immutable, Invalid, ServerError, TooManyRequests
from registry_controller.api.meta import GVR, Manifest, ObjectKey, Target
from registry_controller.core.diff.drift import NOTHING_LEFT, compare_and_merge
from registry_controller.core.diff.question import Known, NextStep
from registry_controller.core.diff.remainder import NOTHING_REMAINS
from registry_controller.sync.copy_writer import content_digest, encode
from registry_controller.sync.stored_form import StoredForm

WIDGETS = GVR("sim.example", "v1", "widgets", True)
TARGET = Target("sim.example", "Widget", "default", "one")
REFUSED = Invalid('admission webhook "w" does not support dry run', status=400, reason="BadRequest")


def widget(spec: Any, **info: Any) -> dict[str, Any]:
    named = {"name": "one", "namespace": "default", "uid": "u", "resourceVersion": "7", **info}
    return {"apiVersion": "sim.example/v1", "kind": "Widget", "metadata": named, "spec": spec}


class Server:
    """An API server that stores `replaced` of a replacement, and `created` of a new object; an error is raised."""

    def __init__(self, replaced: Manifest | ApiError, created: Manifest | ApiError | None = None) -> None:
        self.replaced = replaced
        self.created = created
        self.sent: list[str] = []

    async def replace(
        self, gvr: GVR, key: ObjectKey, body: bytes, *, dry_run: bool, subresource: str, unknown: list[str]
    ) -> bytes:
        assert dry_run
        unknown.append("spec.unknown")
        self.sent.append(f"replace {subresource}".strip())
        return answer(self.replaced)

    async def create(self, gvr: GVR, namespace: str, body: bytes, *, dry_run: bool) -> bytes:
        assert dry_run
        info = orjson.loads(body)["metadata"]
        assert (info.get("name"), info["generateName"], namespace) == (None, "one-", "default")
        self.sent.append("create")
        assert self.created is not None
        return answer(self.created)


def answer(found: Manifest | ApiError) -> bytes:
    if isinstance(found, ApiError):
        raise found
    return orjson.dumps(found)


async def ask(server: Server, wanted: Manifest, current: Manifest, *, target: Target = TARGET) -> NextStep:
    """Ask as after a restart, when the source has changed meanwhile."""
    form = StoredForm(server, digest=lambda manifest: content_digest(manifest, key=b"k"), encode=encode)
    verdict, body = compare_and_merge(wanted, current, manager=meta.FIELD_MANAGER)
    known = Known(False, False, NOTHING_REMAINS, is_of_now=False, is_same_origin=False)
    unknown: list[str] = []
    asked = (WIDGETS, target, wanted, current)
    step = await form.ask(*asked, verdict=verdict, body=body, left=NOTHING_LEFT, known=known, unknown=unknown)
    assert unknown == ["spec.unknown"]
    return step


async def test_a_copy_is_in_step_where_the_server_stores_what_is_there() -> None:
    server = Server(widget({"cpu": "1"}))
    assert await ask(server, widget({"cpu": "1000m"}), widget({"cpu": "1"})) is NextStep.IN_STEP
    assert await ask(server, widget({"cpu": "1000m"}), widget({"cpu": "2"})) is NextStep.WRITE
    assert server.sent == ["replace"] * 2


@pytest.mark.parametrize(
    "error",
    [REFUSED, Invalid("a policy refuses dry runs"), Forbidden("a quota"), Forbidden("you may not", lacks_right=True)],
)
async def test_a_dry_run_that_is_refused_proves_nothing(error: ApiError) -> None:
    """The write itself shows whether the object is refused, too."""
    assert await ask(Server(error), widget({"cpu": "1000m"}), widget({"cpu": "1"})) is NextStep.WRITE
    former = widget({"cpu": "1", "old": "x"})
    assert await ask(Server(error, error), widget({"cpu": "1000m"}), former) is NextStep.WRITE


@pytest.mark.parametrize("error", [ServerError("down", status=503), TooManyRequests("later", status=429)])
async def test_a_server_that_does_not_answer_is_asked_again(error: ApiError) -> None:
    with pytest.raises(type(error)):
        await ask(Server(error), widget({"cpu": "1000m"}), widget({"cpu": "1"}))


async def test_who_may_not_ask_about_a_field_that_may_be_a_default_is_told() -> None:
    """S3: the difference may be none."""
    error = Forbidden("you may not", lacks_right=True)
    with pytest.raises(Forbidden):
        await ask(Server(error, error), widget({}), widget({"limit": 10}))


async def test_a_field_that_may_not_change_has_the_copy_made_anew() -> None:
    with pytest.raises(Immutable, match="is immutable"):
        await ask(Server(Immutable("spec.cpu is immutable")), widget({"cpu": "2"}), widget({"cpu": "1"}))


@pytest.mark.clause("A2")
@pytest.mark.parametrize("replaced", [widget({"address": "None"}), Invalid("not with that type")])
async def test_a_former_field_that_the_server_keeps_or_stumbles_over_has_the_copy_made_anew(
    replaced: Manifest | ApiError,
) -> None:
    server = Server(replaced, widget({"address": "10.0.0.1"}))
    with pytest.raises(Immutable) as caught:
        await ask(server, widget({}), widget({"address": "None"}))
    assert caught.value.kept == ("spec.address",)
    assert "spec.address" in str(caught.value)
    assert server.sent == ["replace", "create"]


@pytest.mark.clause("A2")
async def test_a_replacement_that_is_forbidden_has_nothing_made_anew() -> None:
    """The new object of another name may be allowed, and the one of that name is not."""
    server = Server(Forbidden("a quota"), widget({}))
    assert await ask(server, widget({}), widget({"address": "None"})) is NextStep.WRITE
    assert server.sent == ["replace"]


@pytest.mark.clause("A2")
async def test_a_default_is_no_former_field_and_nobody_makes_a_namespace_anew() -> None:
    default = widget({"limit": 10})
    assert await ask(Server(default, widget({"limit": 10})), widget({}), default) is NextStep.IN_STEP
    assert await ask(Server(default, REFUSED), widget({}), default) is NextStep.IN_STEP
    server = Server(default)
    assert await ask(server, widget({}), default, target=Target("", "Namespace", "", "one")) is NextStep.IN_STEP
    assert server.sent == ["replace"]
