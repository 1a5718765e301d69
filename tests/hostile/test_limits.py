"""P5: docs/security-limits.md has the limits of the code; that the code holds them, tests/unit shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry_controller.api import meta
from registry_controller.clusters import dialer
from registry_controller.kube import connect, listing, translate, transport, watch
from registry_controller.kube import object as objects
from registry_controller.kube.responses import format_size
from registry_controller.watch import limits, reflector, retry

_SECTION = "## The limits"
_WAITS = (transport._CONNECT_S, dialer.PROBE_TIMEOUT_S, 10.0, connect._OPEN_S, connect._PAGE_S)
_OWN = tuple(limits.MOST_OWN[kind] for kind in (meta.CLUSTER, meta.RULE, meta.FEATURE))

LIMITS = {
    "an object, a line of a watch, a page of a list": format_size(transport.ANSWER_BYTES),
    "lines of watches that have begun, together": format_size(watch.ALL_LINES_BYTES),
    "objects in a page": f"{listing._MOST_ITEMS:,}",
    "pages that are read, or gone through, at the same time": f"{connect.PAGES}",
    "pages with hardly anything in them": f"{listing._FREE_PAGES}, then a tenth of the requested size on average",
    "objects, of all kinds that are read": f"{limits.MOST_OBJECTS:,}",
    "Clusters; rules; ClusterFeatures": "; ".join(f"{most:,}" for most in _OWN),
    "a decoded object": f"{format_size(objects.MANIFEST_BYTES)}, "
    f"{objects.CONTAINERS:,} mappings and lists, {objects.COMMAS:,} entries",
    "the text of an error": format_size(translate.STATUS_BYTES),
    "the answers of `/version` and discovery": format_size(connect.DISCOVERY_BYTES),
    "an answer's headers": "128, each of 64 KiB",
    "the wait for a connection; for the identity, an object, the beginning of a watch, a page": (
        "{:.0f} s; {:.0f} s, {:.0f} s, {:.0f} s, {:.0f} s".format(*_WAITS)
    ),
    "existing objects, streamed at the beginning of a watch": f"{reflector._INITIAL_S:.0f} s",
    "a stream of a watch": f"{reflector._WATCH_S[1] + reflector._OVERTIME_S:.0f} s",
    "Retry-After, of lists and watches": f"{retry._REFUSED_CAP_S:.0f} s",
}


def _table() -> dict[str, str]:
    text = (Path(__file__).parents[2] / "docs" / "security-limits.md").read_text(encoding="utf-8")
    section = text.partition(_SECTION)[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {row[0].strip(): row[1].strip() for row in rows}


@pytest.mark.parametrize("what", LIMITS)
def test_the_docs_have_the_limits(what: str) -> None:
    assert _table()[what] == LIMITS[what]
