"""`registry-controller lint`: what is wrong with rules in files, before anybody applies them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import yaml

from registry_controller.api import meta
from registry_controller.api.cluster import read_cluster
from registry_controller.api.errors import InvalidObject
from registry_controller.api.feature import read_feature
from registry_controller.core import syntax
from registry_controller.core.accept import Finding, examine
from registry_controller.core.pruned import unknown_fields
from registry_controller.engine.definitions import read_bundled

_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


class Remark(NamedTuple):
    """A finding with its place; lines and columns are counted from 1."""

    file: str
    line: int
    column: int
    finding: Finding

    def __str__(self) -> str:
        severity = "error" if self.finding.is_error else "warning"
        return f"{self.file}:{self.line}:{self.column}: {severity}: {self.finding}"


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
def lint(files: tuple[Path, ...]) -> None:
    """Check Clusters, ClusterFeatures and ResourceSyncRules in YAML files; `-` is standard input.

    Other kinds are left alone. Exits with 1 when there is an error; a warning is none.
    """
    remarks = [remark for file in files for remark in _lint_file(file)]
    for remark in remarks:
        click.echo(str(remark))
    sys.exit(1 if any(remark.finding.is_error for remark in remarks) else 0)


def _lint_file(file: Path) -> Iterator[Remark]:
    found = list(examine_file(file))
    for _, remarks in found:
        yield from remarks
    if not found:
        words = f"holds no object of {meta.GROUP}: nothing was checked"
        yield Remark(_name_of(file), 1, 1, Finding("file", words, is_error=False))


def _name_of(file: Path) -> str:
    return "<stdin>" if str(file) == "-" else str(file)


def examine_file(file: Path) -> Iterator[tuple[Mapping[str, Any], Sequence[Remark]]]:
    """List the objects of our own kinds in a file, `-` is standard input, each with what is wrong with it.

    What cannot be read at all is an empty object with a remark.
    """
    name = _name_of(file)
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if node is not None:
                yield from _examine_document(name, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        yield {}, [Remark(name, *place, Finding("yaml", error.problem or "cannot be read"))]
    except OSError as error:
        yield {}, [Remark(name, 1, 1, Finding("file", f"cannot be read: {error.strerror}"))]
    except (UnicodeDecodeError, yaml.YAMLError):
        yield {}, [Remark(name, 1, 1, Finding("file", "is no YAML in UTF-8"))]


def _examine_document(file: str, node: yaml.Node) -> Iterator[tuple[Mapping[str, Any], Sequence[Remark]]]:
    for item, manifest in _objects(node, _construct(node)):
        group = meta.group_version(str(manifest.get("apiVersion", "")))[0]
        if group == meta.GROUP:
            yield manifest, [_remark(file, item, finding) for finding in _findings(manifest)]
        elif manifest.get("kind") in _ONLY_OURS:
            words = f"{manifest['kind']} of {group or 'no group'} is not the registry's: that is of {meta.GROUP}"
            yield {}, [_remark(file, item, Finding("apiVersion", words, is_error=False))]


def _remark(file: str, item: yaml.Node, finding: Finding) -> Remark:
    mark = _place(item, finding.path).start_mark
    return Remark(file, mark.line + 1, mark.column + 1, finding)


def _construct(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    return loader.construct_document(node)


def _objects(node: yaml.Node, document: Any) -> Iterator[tuple[yaml.Node, Mapping[str, Any]]]:
    """List the objects of a document, which may be a List."""
    if not isinstance(document, Mapping):
        return
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        for index, item in enumerate(document["items"]):
            yield from _objects(_place(node, f"items[{index}]"), item)
    else:
        yield node, document


def _findings(manifest: Mapping[str, Any]) -> list[Finding]:
    kind, version = manifest.get("kind"), meta.group_version(str(manifest["apiVersion"]))[1]
    definition = next((d for d in read_bundled().values() if d["spec"]["names"]["kind"] == kind), None)
    if definition is None or version != meta.VERSION:
        return [Finding("kind", f"the registry has no such kind as {kind} in {version}")]
    found = [
        *_name_findings(manifest),
        *(
            Finding(path, "is no field of this kind")
            for path in unknown_fields(manifest, definition=definition, version=version)
        ),
    ]
    reader = _READERS.get(str(kind))
    if reader is None:
        return found + examine(manifest)[1]
    try:
        reader(manifest)
    except InvalidObject as error:
        return [*found, Finding(error.path, error.message)]
    return found


def _name_findings(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    info = manifest.get("metadata")
    named = info if isinstance(info, Mapping) else {}
    name = named.get("name")
    if name is None and not named.get("generateName"):
        yield Finding("metadata.name", "is missing")
    elif name is not None and not (isinstance(name, str) and syntax.is_own_kinds_name(name)):
        yield Finding("metadata.name", f"{name!r} is no name: lower-case letters, digits, `-` and `.`, at most 253")


_ONLY_OURS: Final = frozenset({meta.RULE.kind, meta.FEATURE.kind})
"""Kinds that nobody else is known to have; a Cluster has many meanings."""

_READERS: Final[Mapping[str, Callable[[meta.Manifest], object]]] = {
    meta.CLUSTER.kind: read_cluster, meta.FEATURE.kind: read_feature,
}  # fmt: skip


def _place(node: yaml.Node, path: str) -> yaml.Node:
    """Find the node of a path, or the one next to it that is there; of a field, the key."""
    found = node
    for name, bracketed in _STEP.findall(path):
        step = name or bracketed
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == step), None)
            if pair is None:
                return found
            found, node = pair
        elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
            found = node = node.value[int(step)]
        else:
            return found
    return found
