"""Makes a daemon a later version, which writes provenance in format 2: for a Pod whose PYTHONPATH names this folder."""

from __future__ import annotations

import orjson

import registry_controller

registry_controller.__version__ = "9.9.9"

from registry_controller.api import provenance  # noqa: E402  after the version, which others copy

_encode = provenance.encode


def _encode_later(found: provenance.Provenance) -> str:
    return orjson.dumps({**orjson.loads(_encode(found)), "format": 2}, option=orjson.OPT_SORT_KEYS).decode()


provenance.FORMAT = 2  # type: ignore[misc]
provenance.encode = _encode_later
