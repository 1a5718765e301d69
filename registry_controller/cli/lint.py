"""`registry-controller lint`: reports mistakes in files of rules, without a cluster."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import yaml

from registry_controller.api import meta, validation
from registry_controller.api.cluster import read_cluster
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import read_feature
from registry_controller.api.meta import GVK
from registry_controller.cache.crds import read_bundled
from registry_controller.cli.documents import Document, Duplicate, Item, Position, read_documents
from registry_controller.cli.files import file_option, list_files
from registry_controller.cli.global_options import Contexts, GlobalOptions, global_options
from registry_controller.cli.lint_fix import fix_text
from registry_controller.cli.lint_targets import check_annotations, warn_of_original
from registry_controller.cli.output import Form, Tone, say
from registry_controller.core.rules.findings import Finding
from registry_controller.core.rules.misplaced import list_errors
from registry_controller.core.rules.read_errors import find_all_problems
from registry_controller.core.rules.schema import find_schema_errors, suggest_name
from registry_controller.core.rules.validation import find_problems, has_too_many_values

_API_VERSION: Final = meta.RULE.api_version
_SEPARATOR: Final = re.compile(r"[.\[]")
_WHOLE_FILE: Final = "file"
"""The path of a finding about a whole file."""
_SYNTAX: Final = "yaml"
"""The path of a finding about text that is no YAML."""
_Names = dict[tuple[str, str], int]
"""The line of each object's name, by kind and name."""


class Remark(NamedTuple):
    """A finding with its place; lines, columns and the documents of a file are counted from 1.

    `document` is 0 for a finding about the whole file; `kind` and `name` are empty without an object.
    """

    file: str
    line: int
    column: int
    finding: Finding
    document: int = 0
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.finding}"

    @property
    def severity(self) -> str:
        """Return `error` or `warning`."""
        return "error" if self.finding.is_error else "warning"

    def as_document(self) -> Mapping[str, Any]:
        """Return the remark as plain data; docs/command-line.md has the fields."""
        path = self.finding.path
        is_placed = path != _WHOLE_FILE
        return {
            "file": self.file,
            "document": self.document or None,
            "line": self.line if is_placed else None,
            "column": self.column if is_placed else None,
            "object": {"kind": self.kind, "name": self.name or None} if self.kind else None,
            "field": None if path in (_WHOLE_FILE, _SYNTAX) else path,
            "severity": self.severity,
            "message": self.finding.message,
        }


class Examined(NamedTuple):
    """An object of our own kinds with its findings; `place` adds the position in the file to a further finding."""

    manifest: Mapping[str, Any]
    remarks: Sequence[Remark]
    place: Callable[[Finding], Remark] | None = None


@click.command("lint")
@click.option("--fix", is_flag=True, help="Move a misplaced `name` and `namespace` under `objectKey`, in the files.")
@click.argument("files", nargs=-1, metavar="[FILE|DIR|-]...", type=click.Path(path_type=Path, allow_dash=True))
@file_option(help="The same as an argument.", required=False, name="more")
@global_options(contexts=Contexts.NONE, forms=(Form.TEXT, Form.WIDE, Form.JSON, Form.YAML))
@click.pass_context
def lint_command(
    ctx: click.Context, /, files: tuple[Path, ...], *, options: GlobalOptions, more: Sequence[Path], fix: bool
) -> None:
    """Check Clusters, ClusterFeatures and ResourceSyncRules in YAML files, folders, or standard input (`-`).

    Of objects of other kinds, only the annotations that name clusters are checked. Exits 1 on errors; warnings do not
    count. With --fix, it writes the files in which a match has its name or namespace one level too high, and then
    checks them.

    \b
    Examples:
      registry-controller lint rule.yaml
      registry-controller lint --fix rules/
      registry-controller lint rules/ -o json
      kubectl get rsr greetings -o yaml | registry-controller lint -
    """
    if not files and not more:
        raise click.UsageError("Missing argument '[FILE|DIR|-]...'.", ctx)
    files = (*list_files(files), *more)
    if fix and any(str(file) == "-" for file in files):
        raise click.UsageError("--fix writes files: it cannot write standard input")
    for file in files if fix else ():
        _fix_file(file)
    remarks = _lint_files(files)
    printer = options.printer
    if printer.is_for_programs:
        printer.print_document([remark.as_document() for remark in remarks])
    for remark in () if printer.is_for_programs else remarks:
        printer.print_text(str(remark), Tone.BAD if remark.finding.is_error else Tone.WARNING)
    sys.exit(1 if any(remark.finding.is_error for remark in remarks) else 0)


def _fix_file(file: Path) -> None:
    """Write a file again, if it has misplaced parts that can be moved; the check reports one that cannot be read."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            text = opened.read()
        fixed = fix_text(text)
        if fixed != text:
            with file.open("w", encoding="utf-8", newline="") as opened:
                opened.write(fixed)
            say(f"{file}: moved the misplaced fields under objectKey")
    except UnicodeDecodeError:
        return
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be written: {error.strerror}") from None


def _lint_files(files: Sequence[Path]) -> list[Remark]:
    found = [(file, list(examine_file(file, targets=True))) for file in files]
    clusters = [one.manifest for _, objects in found for one in objects if _is_of(one, meta.CLUSTER)]
    remarks = []
    for file, objects in found:
        for one in objects:
            warning = warn_of_original(one.manifest, clusters) if _is_of(one, meta.RULE) else None
            more = [one.place(warning)] if warning is not None and one.place is not None else []
            remarks += sorted((*one.remarks, *more), key=_place_of)
        if not objects:
            words = f"holds no object of {meta.GROUP}: nothing was checked"
            remarks.append(Remark(_name_of(file), 1, 1, Finding(_WHOLE_FILE, words, is_error=False)))
    return remarks


def _is_of(one: Examined, kind: GVK) -> bool:
    """Return whether an object is of one of our own kinds."""
    group, _ = meta.group_version(str(one.manifest.get("apiVersion", "")))
    return (group, one.manifest.get("kind")) == (kind.group, kind.kind)


def _name_of(file: Path) -> str:
    return "<stdin>" if str(file) == "-" else str(file)


def examine_file(file: Path, *, named: bool = False, targets: bool = False) -> Iterator[Examined]:
    """List the objects of our own kinds in a file, each with its findings; `-` is standard input.

    A part that cannot be read is an empty object with a finding. `named` refuses an object that has only a
    generateName. `targets` checks the annotations of other objects that name clusters.
    """
    name = _name_of(file)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        names: _Names = {}
        for document in read_documents(text):
            yield from _examine_document(name, document, names, named=named, targets=targets)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        yield Examined({}, [Remark(name, *place, Finding(_SYNTAX, error.problem or "cannot be read"))])
    except OSError as error:
        yield Examined({}, [Remark(name, 1, 1, Finding(_WHOLE_FILE, f"cannot be read: {error.strerror}"))])
    except (UnicodeDecodeError, yaml.YAMLError):
        yield Examined({}, [Remark(name, 1, 1, Finding(_WHOLE_FILE, "is no YAML in UTF-8"))])
    except RecursionError:
        yield Examined({}, [Remark(name, 1, 1, Finding(_WHOLE_FILE, "has too many levels"))])


def _examine_document(
    file: str, document: Document, names: _Names, *, named: bool, targets: bool
) -> Iterator[Examined]:
    versions = [*document.versions, *(str(item.manifest.get("apiVersion", "")) for item in document.items)]
    if meta.GROUP in {meta.group_version(version)[0] for version in versions} and document.duplicates:
        joined = [twice for twice in document.duplicates if twice.joins_objects][:1]
        yield Examined({}, [_twice(file, document, twice) for twice in joined or document.duplicates])
        if joined:
            return
    for item in document.items:
        group, kind = meta.group_version(str(item.manifest.get("apiVersion", "")))[0], str(item.manifest.get("kind"))
        if group == meta.GROUP:
            findings = [*_findings(item.manifest, named=named), *_name_again(item, kind, names)]
            place = functools.partial(_remark, file, document, item)
            yield Examined(item.manifest, sorted(map(place, findings), key=_place_of), place)
        elif kind in _ONLY_OURS:
            words = f"{kind} of {group or 'no group'} is not the registry's"
            yield Examined({}, [_remark(file, document, item, Finding("apiVersion", f"{words}: write {_API_VERSION}"))])
        elif targets and (wrong := [*check_annotations(item.manifest)]):
            yield Examined({}, [_remark(file, document, item, finding) for finding in wrong])


def _remark(file: str, document: Document, item: Item, finding: Finding) -> Remark:
    place, info = item.place(finding.path), meta.metadata_of(item.manifest)
    kind, name = str(item.manifest.get("kind") or ""), str(info.get("name") or "")
    return Remark(file, *place, finding, document.number, kind, name)


def _place_of(remark: Remark) -> Position:
    return Position(remark.line, remark.column)


def _twice(file: str, document: Document, found: Duplicate) -> Remark:
    words = f"is there twice, first in line {found.first.line}, and only the last one would count"
    if found.joins_objects:
        words = f"is there twice, first in line {found.first.line}: is a line `---` missing between two objects?"
    return Remark(file, *found.place, Finding(found.path, words), document.number)


def _name_again(item: Item, kind: str, names: _Names) -> Iterator[Finding]:
    name, path = meta.metadata_of(item.manifest).get("name"), "metadata.name"
    line = item.place(path).line
    if isinstance(name, str) and (first := names.setdefault((kind, name), line)) != line:
        yield Finding(path, f"is that of the {kind} in line {first}, too, which this one would replace")


def _findings(manifest: Mapping[str, Any], *, named: bool) -> list[Finding]:
    kind, version = str(manifest.get("kind")), meta.group_version(str(manifest["apiVersion"]))[1]
    kinds = {definition["spec"]["names"]["kind"]: definition for definition in read_bundled().values()}
    if kind not in kinds:
        return [Finding("kind", f"the registry has no such kind as {kind}{suggest_name(kind, kinds)}")]
    found = [*_name_findings(manifest, named=named)]
    if version != meta.VERSION:
        found.append(Finding("apiVersion", f"the registry has no version {version}: write {_API_VERSION}"))
    if not has_too_many_values(manifest.get("spec")):
        found += find_schema_errors(manifest, definition=kinds[kind], version=meta.VERSION)
    # A finding of the reader replaces the schema's finding for the same field, and an error replaces a warning.
    read = _reading_findings(manifest, kind)
    wrong = {finding.path for finding in read if finding.is_error}
    found = [finding for finding in found if finding.path not in wrong]
    errors = [*found, *(finding for finding in read if finding.is_error)]
    wrong = {part for finding in errors for part in _list_parents(finding.path)}
    return [*errors, *(finding for finding in read if not finding.is_error and finding.path not in wrong)]


def _list_parents(path: str) -> Iterator[str]:
    """List the paths of a field and of the fields above it: an error there may be the cause of their warnings."""
    yield path
    for found in _SEPARATOR.finditer(path):
        yield path[: found.start()]


def _reading_findings(manifest: Mapping[str, Any], kind: str) -> list[Finding]:
    reader = _READERS.get(kind)
    if reader is None:
        misplaced = [*list_errors(manifest)]
        paths = {finding.path for finding in misplaced}
        rule, found = find_problems(manifest)
        if rule is None and not has_too_many_values(manifest.get("spec")):
            found = find_all_problems(manifest)
        return [*misplaced, *(finding for finding in found if finding.is_error or finding.path not in paths)]
    try:
        reader(manifest)
    except InvalidObject as error:
        return [Finding(error.path, error.message)]
    return []


def _name_findings(manifest: Mapping[str, Any], *, named: bool) -> Iterator[Finding]:
    name, may_be_made = (meta.metadata_of(manifest).get(key) for key in ("name", "generateName"))
    if name is None and (named or not may_be_made):
        yield Finding("metadata.name", "is missing")
    elif name is not None and not (isinstance(name, str) and validation.is_own_kinds_name(name)):
        yield Finding("metadata.name", f"{name!r} is no name: lower-case letters, digits, `-` and `.`, at most 253")


_ONLY_OURS: Final = frozenset({meta.RULE.kind, meta.FEATURE.kind})
"""Kinds that no other project is known to have; there are many kinds named Cluster."""

_READERS: Final[Mapping[str, Callable[[meta.Manifest], object]]] = {
    meta.CLUSTER.kind: read_cluster, meta.FEATURE.kind: read_feature,
}  # fmt: skip
