"""Moves the names and namespaces of a file's matches under `objectKey`, where they belong.

The text is edited in place: comments, order, quotes and other lines stay as they are.

Law: an edit counts only if the file then has the same objects, with the misplaced parts moved.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from registry_controller.api import meta
from registry_controller.cli.documents import Item, read_documents
from registry_controller.core.rules.misplaced import MisplacedKey, find_misplaced

_KEY: Final = "objectKey"
_STEP: Final = "  "
_NULL: Final = re.compile(rf"""^((["']?){_KEY}\2:)[ \t]+(?:!!null[ \t]+)?(?:null|Null|NULL|~)(?=\s|$)""")
_INDEX: Final = re.compile(r"\[(\d+)\]")


def fix_text(text: str) -> str:
    """Return the text of a file with misplaced parts moved; a match that cannot be edited in place stays as it is."""
    done = False
    while not done:
        try:
            items = [item for document in read_documents(text) for item in document.items]
            edited = next(_edit_matches(text, items), None)
        except (yaml.YAMLError, RecursionError):
            return text
        text, done = (edited, False) if edited is not None else (text, True)
    return text


def _edit_matches(text: str, items: Sequence[Item]) -> Iterator[str]:
    """Yield the text with one match edited, for each match that can be edited."""
    before = [item.manifest for item in items]
    for index, item in enumerate(items):
        group = meta.group_version(str(item.manifest.get("apiVersion", "")))[0]
        if (group, item.manifest.get("kind")) != meta.RULE_KIND:
            continue
        for misplaced in find_misplaced(item.manifest):
            node = item.node_at(misplaced.path)
            wanted = [*before[:index], _move(item.manifest, misplaced), *before[index + 1 :]]
            edited = _edit(text, node, misplaced) if isinstance(node, yaml.MappingNode) else text
            if edited != text and _reads_as(edited, wanted):
                yield edited


def _reads_as(text: str, wanted: Sequence[Mapping[str, Any]]) -> bool:
    try:
        return [item.manifest for document in read_documents(text) for item in document.items] == wanted
    except yaml.YAMLError:
        return False


def _move(manifest: Mapping[str, Any], misplaced: MisplacedKey) -> Mapping[str, Any]:
    """Return a rule with the misplaced parts of one match under `objectKey`."""
    result = copy.deepcopy(dict(manifest))
    entry, match = map(int, _INDEX.findall(misplaced.path))
    found = result["spec"]["rules"][entry]["match"][match]
    for part in misplaced.parts:
        del found[part]
    found[_KEY] = dict(misplaced.object_key)
    return result


def _edit(text: str, node: yaml.MappingNode, misplaced: MisplacedKey) -> str:
    """Return the text with one match edited; unchanged where the edit would lose a field or a comment."""
    held = _held(node)
    if _has_key_twice(node) or (held is not None and _has_key_twice(held)):
        return text
    if _loses_comment(text, node, held, misplaced):
        return text
    if node.flow_style:
        start, end = node.start_mark.index, node.end_mark.index
        return f"{text[:start]}{{{', '.join(_rewrite_flow(text, node, misplaced))}}}{text[end:]}"
    lines = text.split("\n")
    start, column = node.start_mark.line, node.start_mark.column
    end = _end_line(node)
    edited = _rewrite_block(text, node, misplaced)
    indented = [" " * column + line if line else line for line in edited[1:]]
    return "\n".join([*lines[:start], lines[start][:column] + edited[0], *indented, *lines[end:]])


def _has_key_twice(node: yaml.MappingNode) -> bool:
    names = [key.value for key, _ in node.value]
    return len(set(names)) < len(names)


def _loses_comment(text: str, node: yaml.MappingNode, held: yaml.MappingNode | None, misplaced: MisplacedKey) -> bool:
    """Return whether a comment stands between the fields in braces that the edit writes."""
    if node.flow_style:
        pairs = [pair for pair in node.value if pair[1] is not held] + (list(held.value) if held is not None else [])
        return _has_comment(text, pairs, start=node.start_mark.index, end=node.end_mark.index)
    if held is None:
        return False
    if not held.flow_style:
        return any("#" in line for part in _replaced(node, held, misplaced) for line in _split_lines(text, held)[part])
    lines, moved = _split_lines(text, node), [pair for pair in node.value if pair[0].value in misplaced.parts]
    beside = ["\n".join(lines[pair[0].value]).replace(_source(text, *pair), "", 1) for pair in moved]
    return any("#" in part for part in beside) or _has_comment(
        text, held.value, start=held.start_mark.index, end=held.end_mark.index
    )


def _has_comment(text: str, pairs: Sequence[tuple[yaml.Node, yaml.Node]], *, start: int, end: int) -> bool:
    """Return whether a part of a text has a comment beside these fields."""
    between = list[str]()
    for key, value in sorted(pairs, key=lambda pair: pair[0].start_mark.index):
        between.append(text[start : key.start_mark.index])
        start = key.start_mark.index + len(_source(text, key, value))
    return any("#" in part for part in (*between, text[start:end]))


def _rewrite_flow(text: str, node: yaml.MappingNode, misplaced: MisplacedKey) -> list[str]:
    """Return the fields of a match in braces, with the texts of their values."""
    fields, at = list[str](), 0
    for key, value in node.value:
        if key.value == _KEY:
            at = len(fields)
        elif key.value not in misplaced.parts:
            fields.append(_source(text, key, value))
    fields.insert(at, _spell_key(text, node, misplaced))
    return fields


def _spell_key(text: str, node: yaml.MappingNode, misplaced: MisplacedKey) -> str:
    """Return `objectKey` in braces, with the texts of its fields and of the misplaced ones."""
    held, parts = _held(node), misplaced.parts
    kept = [pair for pair in held.value if pair[0].value not in parts] if held is not None else []
    pairs = [*kept, *(pair for pair in node.value if pair[0].value in parts)]
    quote = '"' if node.flow_style and all(key.style == '"' for key, _ in node.value) else ""  # as in JSON
    return f"{quote}{_KEY}{quote}: {{{', '.join(_source(text, key, value) for key, value in pairs)}}}"


def _held(node: yaml.MappingNode) -> yaml.MappingNode | None:
    """Return the `objectKey` of a match; None where there is none, or a null."""
    found = next((value for key, value in node.value if key.value == _KEY), None)
    return found if isinstance(found, yaml.MappingNode) else None


def _source(text: str, key: yaml.Node, value: yaml.Node) -> str:
    return text[key.start_mark.index : max(key.end_mark.index, value.end_mark.index)]


def _rewrite_block(text: str, node: yaml.MappingNode, misplaced: MisplacedKey) -> list[str]:
    """Return the lines of a match, without its indentation: the misplaced lines follow `objectKey`."""
    fields, held = _split_lines(text, node), _held(node)
    own = fields.get(_KEY, [f"{_KEY}:"])
    begin = next((key.start_mark.line for key, _ in node.value if key.value == _KEY), 0)
    if held is not None and held.flow_style:
        rest = text[held.end_mark.index :].split("\n", 1)[0]
        own = [_spell_key(text, node, misplaced) + rest, *own[held.end_mark.line - begin + 1 :]]
    elif held is not None:
        own = [*own[: held.start_mark.line - begin], *_rewrite_held(text, node, held, misplaced)]
    else:
        moved = [line for part in misplaced.parts for line in fields[part]]
        own = [_NULL.sub(r"\1", own[0]), *own[1:], *(_STEP + line for line in moved)]
    place = _KEY if _KEY in fields else next(name for name in fields if name in misplaced.parts)
    result: list[str] = []
    for name, lines in fields.items():
        result += own if name == place else () if name in misplaced.parts else lines
    return result


def _rewrite_held(text: str, node: yaml.MappingNode, held: yaml.MappingNode, misplaced: MisplacedKey) -> list[str]:
    """Return the lines below `objectKey`, with the misplaced ones; one of them replaces an empty one of its name."""
    fields, below, replaced = _split_lines(text, node), _split_lines(text, held), _replaced(node, held, misplaced)
    kept = [line for name, lines in below.items() if name not in replaced for line in lines]
    moved = [line for part in misplaced.parts if part in replaced or part not in below for line in fields[part]]
    step = " " * (held.start_mark.column - node.start_mark.column)
    return [step + line if line else line for line in (*kept, *moved)]


def _replaced(node: yaml.MappingNode, held: yaml.MappingNode, misplaced: MisplacedKey) -> Collection[str]:
    """Return the parts that are empty below `objectKey`, and misplaced ones beside it."""
    wanted = {key.value: value.value for key, value in node.value}
    return [key.value for key, value in held.value if key.value in misplaced.parts and value.value != wanted[key.value]]


def _split_lines(text: str, node: yaml.MappingNode) -> Mapping[str, list[str]]:
    """Map the fields of a match to their lines, without its indentation; a comment belongs to the field before it."""
    column, lines = node.start_mark.column, text.split("\n")
    starts = [key.start_mark.line for key, _ in node.value]
    found: dict[str, list[str]] = {}
    for (key, _), start, end in zip(node.value, starts, [*starts[1:], _end_line(node)], strict=True):
        found[str(key.value)] = [lines[start][column:], *(_unindent(line, column) for line in lines[start + 1 : end])]
    return found


def _unindent(line: str, column: int) -> str:
    return line.lstrip() if line[:column].strip() else line[column:]


def _end_line(node: yaml.Node) -> int:
    """Return the line after the last one of a node, without the comments that follow."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        key, value = (last, last) if isinstance(last, yaml.Node) else last
        node = value if value.end_mark.index > value.start_mark.index else key
    ends_before = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line  # a text in lines of its own
    return node.end_mark.line + (0 if ends_before else 1)
