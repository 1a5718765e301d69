"""The members that contexts are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from registry_controller.group.dialers import Context
from registry_controller.group.sources import ContextSource, MemberSpec


@pytest.mark.parametrize(
    ("local", "is_local"),
    [("", {"": True, "b": False}), ("b", {"": False, "b": True}), (None, {"": False, "b": False})],
)
async def test_the_local_member_is_that_of_the_named_context_or_of_the_current_one(
    local: str | None, is_local: Mapping[str, bool]
) -> None:
    found: list[Mapping[str, MemberSpec]] = []
    await ContextSource([Context(), Context(name="b")], local=local).run(found.append)
    assert [{name: spec.is_local for name, spec in one.items()} for one in found] == [is_local]
