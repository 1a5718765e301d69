"""Files that are replaced atomically."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a temporary file and move it into place: a reader sees the old content or the new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(mode)
        os.replace(temporary, path)  # noqa: PTH105 - Path.replace reads as if it replaced text
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
