"""A real Prometheus scrapes a real group; each panel of the dashboard has data, and each alert is evaluated."""

from __future__ import annotations

import subprocess

import pytest

from tests.docs.documents import ROOT

_AT_MOST_S = 1740.0
"""The first run builds Prometheus from its Go module, for some minutes."""


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_each_panel_has_data_from_a_real_group() -> None:
    """The program writes its progress to stderr, which pytest shows with `-s`, or after a failure."""
    done = subprocess.run(
        ["hack/scrape"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False,
        timeout=_AT_MOST_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "each panel has data, and each alert is evaluated"
