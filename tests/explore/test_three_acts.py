"""Three acts of all kinds, in every order.

A group has one rule for all, on which the acts are, too, or each member has its own rule, and the acts are of all other
kinds. Each search is a process of its own, so that its memory is freed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.explore.search import COMPLETE
from tests.explore.steps import ACTS

_ROOT = Path(__file__).parents[2]
_AT_MOST_S = 1740.0


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", [[], ["--kinds", ",".join(sorted(ACTS - {"rule", "unrule"}))]])
def test_every_order_of_three_acts_keeps_the_laws(options: list[str]) -> None:
    """O4, O5, O6, P3, P7, W3: who is silent, or does not hear, loses nothing, and is not lost."""
    command = [sys.executable, "-m", "hack.programs.explore", "--acts", "3", *options]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(_ROOT)}
    ran = subprocess.run(
        command, check=False, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=_AT_MOST_S
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert f"ended by: {COMPLETE}" in ran.stdout
