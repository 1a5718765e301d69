"""`hack/audit`: its exit code and its message for each answer of pip-audit, which a stub gives."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_SOUND = {"name": "plain", "version": "1.0", "vulns": []}
_FOUND = {"name": "holed", "version": "2.0", "vulns": [{"id": "ID-1", "fix_versions": ["2.1", "3.0"]}]}
_UNMENDED = {"name": "open", "version": "3.0", "vulns": [{"id": "ID-2", "fix_versions": []}]}
_STUB = """#!/bin/bash
while (($#)); do
  case $1 in --output) output=$2 ;; --requirement) echo "$2" >>asked ;; esac
  shift
done
cat {report} >"$output"
echo "stub: this is the message of pip-audit" >&2
exit {code}
"""


def _audit(tree: Path, *packages: dict[str, object], code: int) -> subprocess.CompletedProcess[str]:
    """Run the script in a tree of its own. The stub writes a report of the packages; without one, an empty file."""
    tools, report = tree / "tools", tree / "report.json"
    report.write_text(json.dumps({"dependencies": packages}) if packages else "", encoding="utf-8")
    scripts = {
        tree / "hack" / "release-tools": f"#!/bin/bash\necho {shlex.quote(str(tools))}\n",
        tools / "pip-audit": _STUB.format(report=shlex.quote(str(report)), code=code),
        tools / "python": f'#!/bin/bash\nexec {shlex.quote(sys.executable)} "$@"\n',
    }
    for path, text in scripts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    shutil.copy2(ROOT / "hack" / "audit", tree / "hack")
    return subprocess.run([tree / "hack" / "audit"], capture_output=True, text=True, check=False, timeout=60)


def test_sound_packages_of_both_locks_pass(tmp_path: Path) -> None:
    done = _audit(tmp_path, _SOUND, code=0)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "asked").read_text().split() == ["requirements/otel.lock", "requirements/build.lock"]


@pytest.mark.parametrize("code", [0, 1, 124], ids=["exit-0", "exit-1", "timed-out"])
def test_without_a_report_it_fails_and_names_what_was_not_audited(code: int, tmp_path: Path) -> None:
    done = _audit(tmp_path, code=code)
    assert done.returncode == 1
    assert "requirements/otel.lock was not audited: no advisory service answered" in done.stderr


def test_a_vulnerability_fails_with_the_versions_that_mend_it(tmp_path: Path) -> None:
    done = _audit(tmp_path, _SOUND, _FOUND, _UNMENDED, code=1)
    assert done.returncode == 1
    assert done.stdout == "holed 2.0 ID-1 mended in 2.1, 3.0\nopen 3.0 ID-2 mended in no version\n"
    assert "hack/audit:" not in done.stderr


def test_a_failure_without_a_vulnerability_has_a_message(tmp_path: Path) -> None:
    done = _audit(tmp_path, _SOUND, code=3)
    assert done.returncode == 1
    failure = "pip-audit failed with exit code 3, and its report has no vulnerability"
    assert f"hack/audit: requirements/otel.lock: {failure}" in done.stderr
