"""YAML from strangers: one document, no anchors, no aliases, no tags, no duplicate keys, bounded in every direction."""

from __future__ import annotations

from typing import Any, Final

import yaml

from registry_controller.api.errors import InvalidKubeconfig

_SIZE_BYTES: Final = 256 * 1024  # a Secret holds 1 MiB; a kubeconfig with ten CAs is 40 KiB
_EVENTS: Final = 5_000
_DEPTH: Final = 20

_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING: Final = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_CLOSING: Final = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class _Strict(_Loader):  # type: ignore[misc]
    """A safe loader that refuses what could say two things at once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        names = [key.value for key, _ in node.value]
        if any(key.tag != "tag:yaml.org,2002:str" for key, _ in node.value):
            raise InvalidKubeconfig("kubeconfig: has a key that is not text")
        if len(set(names)) != len(names):
            raise InvalidKubeconfig(f"kubeconfig: has the same key twice (line {node.start_mark.line + 1})")
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


def _number(_loader: Any, _node: yaml.Node) -> int:
    """Read any number or date as 0: no field of ours has one, and YAML 1.1 takes seconds to read a long one."""
    return 0


for _kind in ("int", "float", "timestamp"):
    _Strict.add_constructor(f"tag:yaml.org,2002:{_kind}", _number)


def load_document(text: str) -> Any:
    """Load one YAML document; raise InvalidKubeconfig, without any of the text in the message."""
    if len(text) > _SIZE_BYTES:
        raise InvalidKubeconfig(f"kubeconfig: is larger than {_SIZE_BYTES // 1024} KiB")
    try:
        _check_events(text)
        return yaml.load(text, Loader=_Strict)  # noqa: S506 -- _Strict is a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise InvalidKubeconfig(f"kubeconfig: is not valid YAML{where}") from None
    except (ValueError, OverflowError, RecursionError):
        raise InvalidKubeconfig("kubeconfig: holds a value that cannot be read") from None


def _check_events(text: str) -> None:
    """Look before building: what an alias would multiply is never built."""
    depth = documents = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidKubeconfig("kubeconfig: uses a YAML anchor or alias, which is not allowed")
        if getattr(event, "tag", None) not in (None, "!"):
            raise InvalidKubeconfig("kubeconfig: uses a YAML tag, which is not allowed")
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, _OPENING) - isinstance(event, _CLOSING)
        if count > _EVENTS or depth > _DEPTH or documents > 1:
            raise InvalidKubeconfig("kubeconfig: is too deep, too long, or more than one document")
