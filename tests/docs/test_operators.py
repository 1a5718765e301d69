"""docs/operators.md has each reason for which the collector asks no member about an owner."""

from __future__ import annotations

import re

from registry_controller.group.owner_proof import NotAsked
from tests.docs.documents import ROOT, table


def test_the_reasons_for_which_no_member_is_asked_are_those_of_the_code() -> None:
    rows = table(ROOT / "docs" / "operators.md", header="answer")
    listed = [words for _, effect in rows for words in re.findall(r"the object stays, because `([^`]+)`", effect)]
    assert sorted(listed) == sorted(reason.value for reason in NotAsked)
