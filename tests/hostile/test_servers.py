"""The table of hostile API servers: whole, and in the docs. `tests/e2e/test_hostile_servers.py` plays it."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tests.hostile.cases import HONEST
from tests.hostile.server.deeds import BOMB_MIB, WINDOWS, bomb
from tests.hostile.shown import nothing
from tests.hostile.tables import FAMILIES, markdown

MIB = 1024 * 1024
CASES = [case for family in FAMILIES for case in family.cases]


def test_the_table_is_whole() -> None:
    """P4, P5: every row once, and each either says something or shows that the good object comes all the same.

    What happens is made of claims, none of which is without an assertion.
    """
    names = [case.does for case in CASES]
    assert len(set(names)) == len(names) > 100
    for case in CASES:
        assert case.said or set(HONEST) <= set(case.copied), case.does
        assert case.claims, case.does
        for claim in case.claims:
            assert claim.words, case.does
            assert (claim.comes, claim.holds) != (nothing, nothing), f"{case.does}: {claim.words}"
        assert "|" not in case.does + case.happens + case.told, case.does


@pytest.mark.parametrize("encoding", WINDOWS)
def test_a_bomb_would_burst(encoding: str) -> None:
    """P5: what is decompressed of it is valid, and more than a daemon may grow by; the rows would show nothing else."""
    packed = bomb(encoding)
    assert len(packed) < 512 * 1024
    opener = zlib.decompressobj(wbits=WINDOWS[encoding])
    size, rest = 0, packed
    while rest:
        size += len(opener.decompress(rest, MIB))
        rest = opener.unconsumed_tail
    assert opener.eof
    assert size > BOMB_MIB * MIB >= 2 * MIB * max(family.growth_mib for family in FAMILIES)


def test_the_docs_have_the_table() -> None:
    """As it is here, row by row."""
    docs = Path(__file__).parents[2] / "docs" / "security-tests.md"
    assert markdown() in docs.read_text(encoding="utf-8")
