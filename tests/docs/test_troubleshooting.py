"""docs/troubleshooting.md explains every message of the modules that make messages, and no other one."""

from __future__ import annotations

import re

import pytest

from registry_controller.report.reasons import MESSAGES, MESSAGES_FOR_FALSE, REFUSALS
from tests.docs.documents import anchors, table
from tests.docs.messages import (
    ELSEWHERE,
    NOT_SHOWN,
    PACKAGE,
    PAGE,
    SOURCES,
    fragments,
    is_explained,
    messages,
    modules_of,
    modules_with_messages,
)

IN_REASONS = {*MESSAGES.values(), *MESSAGES_FOR_FALSE.values(), *REFUSALS.values()}
"""docs/reasons.md explains these by their reason."""


@pytest.mark.parametrize("header", SOURCES)
def test_each_message_of_the_code_is_explained(header: str) -> None:
    known = fragments(header)
    found = [message for message in messages(header) if message not in IN_REASONS]
    assert found
    assert [message for message in found if not any(is_explained(message, known) for known in known)] == []


def test_each_module_with_messages_has_a_place_that_explains_them() -> None:
    here = modules_of(pattern for patterns in SOURCES.values() for pattern in patterns)
    elsewhere = modules_of(pattern for patterns in [*ELSEWHERE.values(), NOT_SHOWN] for pattern in patterns)
    assert [str(path.relative_to(PACKAGE)) for path in modules_with_messages() if path not in here | elsewhere] == []


@pytest.mark.parametrize("place", ELSEWHERE)
def test_each_other_place_is_there(place: str) -> None:
    name, _, anchor = place.partition("#")
    assert anchor in anchors(PAGE.parent / name)


@pytest.mark.parametrize("header", SOURCES)
def test_each_message_of_the_page_is_one_of_the_code(header: str) -> None:
    found = messages(header)
    assert [known for known in fragments(header) if not any(is_explained(text, known) for text in found)] == []


@pytest.mark.parametrize("header", SOURCES)
def test_each_row_has_an_anchor_a_cause_and_an_action(header: str) -> None:
    special = {
        "message about this cluster": "local", "message of the command line": "cli",
        "message of join, status or check": "group",
    }  # fmt: skip
    prefix = special.get(header, header.rsplit(maxsplit=1)[-1].lower())
    for first, cause, action in table(PAGE, header=header):
        assert re.match(rf'<a id="{prefix}-[a-z-]+"></a>`', first)
        assert cause
        assert action


def test_anchors_are_unique() -> None:
    anchors = re.findall(r'<a id="([^"]+)"', PAGE.read_text(encoding="utf-8"))
    assert len(anchors) == len(set(anchors)) > 70


def test_a_new_message_is_found() -> None:
    known = [fragment for header in SOURCES for fragment in fragments(header)]
    assert not any(is_explained("a message that is not on the page yet", fragment) for fragment in known)
