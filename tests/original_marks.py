"""The annotation in which the Go original keeps the object that it wrote."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any


def last_applied(manifest: Mapping[str, Any]) -> str:
    """Return the value of the annotation `banzaicloud.com/last-applied` of an object."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("original", json.dumps(manifest))
    return base64.b64encode(packed.getvalue()).decode()
