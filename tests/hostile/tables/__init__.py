"""The cases of hostile servers, family by family: those of one family stand at the gate together."""

from __future__ import annotations

from typing import Final

from tests.hostile.cases import Family
from tests.hostile.tables.answers import ANSWERS
from tests.hostile.tables.claims import CLAIMS, CONTENTS
from tests.hostile.tables.connections import CONNECTIONS
from tests.hostile.tables.lists import ITEMS, LISTS
from tests.hostile.tables.masses import FLOOD, MASSES
from tests.hostile.tables.members import MEMBERS
from tests.hostile.tables.rules import RULES
from tests.hostile.tables.watches import ERRORS, EVENTS, LINES

FAMILIES: Final = (
    Family("dialling", (*CONNECTIONS, *ANSWERS), growth_mib=96),
    Family("lists", LISTS, growth_mib=96, lasts_s=10.0),
    Family("items", (*ITEMS, *CLAIMS)),
    Family("events", EVENTS, lasts_s=5.0),
    Family("lines", (*LINES, *ERRORS), growth_mib=96, lasts_s=10.0),
    Family("contents", CONTENTS),
    Family("members", (*MEMBERS, *RULES), growth_mib=128),
    Family("flood", FLOOD),
    Family("masses", MASSES, growth_mib=128, lasts_s=16.0),
)
"""More than the usual 64 MiB is for 70 servers, for bodies of 8 to 16 MiB of several at once, for 8 MiB of rules that
are copied, and for 300,000 keys."""


def markdown() -> str:
    """Spell the table for the docs, one case a row."""
    lines = ["| The server | Effect here | Message |", "|---|---|---|"]
    lines += [f"| {case.does} | {case.happens} | {case.told} |" for family in FAMILIES for case in family.cases]
    return "\n".join(lines) + "\n"
