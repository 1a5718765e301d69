"""One list beside a watch, repeated until it counts. R1, R2."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from registry_controller.api.errors import Forbidden, RegistryError, ServerError, Unauthorized
from registry_controller.api.meta import GVK, GVR, ObjectKey
from registry_controller.api.selection import EVERYTHING, Selection
from registry_controller.watch import retry
from registry_controller.watch.fairness import EvaluationLimiter
from registry_controller.watch.lister import SelectionList, list_until_complete
from registry_controller.watch.stream import SelectionStream

KIND, RESOURCE = GVK("", "v1", "ConfigMap"), GVR("", "v1", "configmaps", True)
X = Selection("x")


def page(*names: str, revision: int = 9, token: str = "", namespace: str = "x") -> bytes:
    items = [
        {"metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "5"}} for name in names
    ]
    return json.dumps({"metadata": {"resourceVersion": str(revision), "continue": token}, "items": items}).encode()


class Peer:
    """A reader whose answers are scripted, with its discovery; it is its own observer, and the cache of the list."""

    def __init__(self, *answers: bytes | RegistryError) -> None:
        self.script = list(answers)
        self.asked: list[Selection] = []
        self.turns = asyncio.Semaphore(1)
        self.listed: list[str] = []
        self.errors: list[str] = []
        self.answered = self.refused = self.completed = 0
        stream: Any = SelectionStream(self, EVERYTHING, 1)  # type: ignore[arg-type]
        stream.revision = 7
        self.listing = SelectionList(self, X, stream, generation=1)

    async def list_page(self, gvr: GVR, selection: Selection, *, query: dict[str, str]) -> bytes:
        self.asked.append(selection)
        answer = self.script.pop(0)
        if isinstance(answer, RegistryError):
            raise answer
        return answer

    async def resolve(self, kind: GVK) -> GVR:
        return RESOURCE

    def on_answer(self) -> None:
        self.answered += 1

    def on_no_answer(self, error: RegistryError) -> None:
        pass

    def on_unauthorized(self) -> None:
        self.refused += 1

    def on_listed(self, listing: SelectionList, obj: Any) -> None:
        self.listed.append(obj.key.name)

    def on_list_complete(self, listing: SelectionList) -> None:
        self.completed += 1

    def on_list_failed(self, listing: SelectionList) -> None:
        self.errors.append(type(listing.error).__name__)

    async def run(self) -> None:
        reader: Any = self
        await list_until_complete(
            self.listing, KIND, reader=reader, discovery=reader, observer=self, turns=EvaluationLimiter()
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: object, error: RegistryError) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(retry.RetryDelay, "wait_after", at_once)


async def test_all_pages_of_its_own_selection_are_listed_once() -> None:
    peer = Peer(page("a", token="t"), page("b"))
    await peer.run()
    assert (peer.listed, peer.asked, peer.completed, peer.listing.is_complete) == (["a", "b"], [X, X], 1, True)
    assert peer.answered == 2


async def test_errors_are_shown_until_a_list_succeeds() -> None:
    peer = Peer(Forbidden("no"), Unauthorized("no"), ServerError("broken"), page("a"))
    await peer.run()
    assert peer.errors == ["Forbidden", "Unauthorized", "ServerError"]
    assert (peer.listing.error, peer.completed, peer.refused) == (None, 1, 1)
    assert peer.answered == 2  # the refusal by the API server itself, and the page


async def test_a_list_with_objects_that_cannot_be_read_or_from_before_the_watch_is_repeated() -> None:
    peer = Peer(page("a", namespace="elsewhere"), page("a", revision=6), page("a"))
    await peer.run()
    assert (peer.errors, peer.listed, peer.completed) == (["ProtocolError"] * 2, ["a", "a"], 1)


async def test_what_the_watch_has_named_meanwhile_is_left_to_it() -> None:
    peer = Peer(page("a", "b"))
    peer.listing.note_named(ObjectKey("x", "a"))
    await peer.run()
    assert peer.listed == ["b"]
