"""The project's own promises: the map, the wheel, the image, the locks, and words that have no place here."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import registry_controller

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "registry_controller"
CHART = ROOT / "deploy" / "helm" / "cluster-registry"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".json", ".txt", ".tpl", ".lock", ".mod", ".sum", ".cfg", ""}
LEFT_OUT = {".git", ".venv", "__pycache__"}


def _files() -> list[Path]:
    """List what is or can be committed, without binary files and caches."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [ROOT / name for name in listed]
    return [path for path in paths if path.is_file() and path.suffix in TEXTS and not LEFT_OUT & set(path.parts)]


def _map() -> dict[str, str]:
    """Read the map in the package's docstring: the purpose of each package and file."""
    assert registry_controller.__doc__ is not None
    return dict(re.findall(r"^    ([a-z_]+(?:/|\.py)) +(\S.*)$", registry_controller.__doc__, re.MULTILINE))


def test_the_map_names_every_package_and_nothing_else() -> None:
    packages = {path.name + ("/" if path.is_dir() else "") for path in PACKAGE.iterdir()}
    unmapped = {"__init__.py", "__main__.py", "__pycache__/", "py.typed"}
    assert sorted(_map()) == sorted(packages - unmapped)


def test_the_map_of_the_docs_is_the_same() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z_]+(?:/|\.py))` \| (.*) \|$", text, re.MULTILINE) == list(_map().items())


@pytest.mark.parametrize("name", _map())
def test_a_package_says_of_itself_what_the_map_says(name: str) -> None:
    path = PACKAGE / name / "__init__.py" if name.endswith("/") else PACKAGE / name
    purpose = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]
    assert purpose.removesuffix(".").lower() == _map()[name].lower()


@pytest.mark.parametrize(
    "room",
    [
        *("hack/demo", "hack/programs/bench", "hack/programs/image", "hack/controlplane", "hack/pods"),
        *(f"registry_controller/{name}" for name in ("cache", "clusters", "core/decision", "membership", "sync")),
    ],
)
def test_a_package_with_many_modules_names_them(room: str) -> None:
    folder = ROOT / room
    doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    mapped = re.findall(r"^([a-z_]+)  +\S", doc, re.MULTILINE)
    assert sorted(mapped) == sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("__"))


def test_the_charts_definitions_are_the_projects() -> None:
    ours = {path.name: path.read_bytes() for path in (ROOT / "crds").iterdir()}
    assert {path.name: path.read_bytes() for path in (CHART / "crds").iterdir()} == ours


def test_the_wheel_builds_and_carries_the_definitions(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"registry_controller/crds/{path.name}" for path in (ROOT / "crds").iterdir()} <= set(names)
    assert {name.split("/")[0] for name in names} == {
        "registry_controller", f"registry_controller-{registry_controller.__version__}.dist-info"
    }  # fmt: skip
    modules = {str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*.py")}
    assert modules <= set(names)


def _instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_is_made_of_files_that_are_there() -> None:
    copied = [rest.split()[:-1] for name, rest in _instructions() if name == "COPY" and "--from" not in rest]
    sources = {source for line in copied for source in line}
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    kept = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE))
    assert {source if source.startswith("hack/") else source.split("/")[0] for source in sources} == kept


def test_the_image_runs_the_daemon_as_a_numeric_user() -> None:
    last = dict(_instructions())
    assert last["USER"] == "65532:65532"
    assert last["ENTRYPOINT"] == '["registry-controller"]'
    assert last["CMD"] == '["run"]'
    assert {name for name, _ in _instructions()} <= {
        "ARG",
        "FROM",
        "LABEL",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "ENTRYPOINT",
        "CMD",
    }


@pytest.mark.parametrize("name", ["run", "dev", "build", "release"])
def test_a_lock_has_hashes_and_no_registry(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    pinned = re.findall(r"^\S.*==", text, re.MULTILINE)
    assert len(pinned) >= 5
    assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=\S)", text) if "==" in entry)


@pytest.mark.parametrize("name", ["run", "otel", "build"])
def test_the_image_gets_the_versions_that_were_tested(name: str) -> None:
    pins = {}
    for lock in ("dev", name):
        text = (ROOT / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
        pins[lock] = set(re.findall(r"^([\w.-]+==[\w.]+)", text, re.MULTILINE))
    assert pins[name] <= pins["dev"]


def test_every_dependency_is_in_the_lock() -> None:
    text = (ROOT / "requirements" / "run.lock").read_text(encoding="utf-8")
    for requirement in PROJECT["project"]["dependencies"]:
        name = re.match(r"[\w.-]+", requirement)
        assert name is not None
        assert re.search(rf"^{re.escape(name[0])}==", text, re.MULTILINE), requirement


def test_the_versions_of_chart_and_package_are_one() -> None:
    chart = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    assert f"appVersion: {registry_controller.__version__}\n" in chart


def test_no_text_names_a_machine_or_a_workplace() -> None:
    words = ["/" + "work/", "/" + "root/", "/" + "tmp/cp", "sha" + "red/spec", "/" + "opt/wheels", "iss" + "ues show"]
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in _files() for word in words if word in path.read_text(encoding="utf-8", errors="replace")
    }  # fmt: skip
    assert found == set()


def test_nothing_is_left_to_be_done_in_silence() -> None:
    marks = re.compile("TO" + "DO|FIX" + "ME|XX" + "X")
    found = [
        str(path.relative_to(ROOT))
        for path in _files()
        if path.suffix == ".py" and marks.search(path.read_text("utf-8"))
    ]
    assert found == []


def test_a_name_stands_for_one_class() -> None:
    """Type aliases count, too."""
    places: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name.strip("_")[:1].isupper() and any(map(str.islower, name)):
                    places.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
