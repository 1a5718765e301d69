"""The brake on deletions, on real control planes."""

from __future__ import annotations

import re
from typing import Any

from tests.e2e.group import CONFIG_MAP, config_map, eventually, joined_group, rule

COUNT = 120


def test_a_selector_with_a_typing_error_deletes_nothing_until_somebody_allows_it() -> None:
    """W4, W3, A1: over a restart; the command that the condition names lets the copies go."""
    with joined_group(2, prefix="brake") as (first, second):

        def wanting(label: str) -> dict[str, Any]:
            match = [{"labels": [{"matchLabels": {"sync": label}}]}]
            return rule("many", CONFIG_MAP, {"match": match}, deletionPolicy="Delete")

        def left() -> int:
            return second.kubectl("get", "cm", "-l", "sync=yes", "-o", "name").count("many-")

        def halted() -> dict[str, Any]:
            return second.condition("rsr", "many", "DeletionHalted")

        second.apply(wanting("yes"))
        first.create(*(config_map(f"many-{n}", {"n": str(n)}, labels={"sync": "yes"}) for n in range(COUNT)))
        eventually(lambda: left() == COUNT)
        second.apply(wanting("yse"))
        eventually(lambda: halted().get("status") == "True", what="deletions are halted")
        assert left() == COUNT
        said = halted()["message"]
        second.daemon.restart()
        second.daemon.wait_ready(timeout_s=180)
        eventually(lambda: second.condition("rsr", "many", "Accepted").get("status") == "True", what="the rule is read")
        assert halted()["message"] == said
        assert left() == COUNT
        command = re.search(r"kubectl (annotate .*)$", said)
        assert command is not None, said
        second.kubectl(*command[1].split())
        eventually(lambda: left() == 0)
        eventually(lambda: not halted(), what="the halt is over")
