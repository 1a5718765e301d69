"""What kstatus makes of an object: Flux, Argo CD's users and `kubectl` plugins judge objects by this library.

Law: the answers are those of `sigs.k8s.io/cli-utils`. The program is built from `kstatus/`, once for each content of
it, in the cache of the control planes' programs.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hack.controlplane.build import RECIPES, Recipe, ensure_binaries

_HERE = Path(__file__).resolve().parent / "kstatus"
_NAME = "kstatus"
_PATIENCE_S = 300.0


def build_kstatus() -> Path:
    """Return the program's path, built when its sources are new; BuildError says what to do."""
    digest = hashlib.sha256((_HERE / "main.go").read_bytes()).hexdigest()
    RECIPES[_NAME] = Recipe(str(_HERE), ".", "sigs.k8s.io/cli-utils", (f"main.sources={digest}",), 30)
    return ensure_binaries((_NAME,))[_NAME]


def judge(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the status of each object, such as `Current`; ValueError where kstatus reports an error."""
    text = "".join(f"{json.dumps(found)}\n" for found in objects)
    done = subprocess.run(
        [str(build_kstatus())], input=text, capture_output=True, text=True, check=True, timeout=_PATIENCE_S
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [found["error"] for found in answers if "error" in found]
    if errors:
        raise ValueError(errors[0])
    return [found["status"] for found in answers]
