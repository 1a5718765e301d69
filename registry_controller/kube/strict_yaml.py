"""Loads untrusted YAML: one document, no anchors, aliases, tags or duplicate keys, and with limits on all sizes."""

from __future__ import annotations

from typing import Any, Final

import yaml

from registry_controller.api.errors import InvalidKubeconfig

_SIZE_BYTES: Final = 256 * 1024  # a Secret holds 1 MiB; a kubeconfig with ten CAs is 40 KiB
_EVENTS: Final = 5_000
_DEPTH: Final = 20
_NUMBER_CHARS: Final = 100  # no number and no date is longer

_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING: Final = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_CLOSING: Final = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


class _Strict(_Loader):  # type: ignore[misc]
    """A safe loader that refuses ambiguous input."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:
        """Return a tag. Long scalars are texts without a check: PyYAML's expression for numbers is slow on them."""
        if kind is yaml.ScalarNode and len(value) > _NUMBER_CHARS:
            return "tag:yaml.org,2002:str"
        return super().resolve(kind, value, implicit)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        names = set()
        for key, _ in node.value:
            where = _line(key.start_mark)
            if key.tag == "tag:yaml.org,2002:merge":
                raise InvalidKubeconfig(f"kubeconfig: uses a YAML merge key{where}, which is not allowed")
            if key.tag != "tag:yaml.org,2002:str":
                raise InvalidKubeconfig(f"kubeconfig: has a key that is not text{where}; put it in quotes")
            if key.value in names:
                raise InvalidKubeconfig(f"kubeconfig: has the same key twice{where}")
            names.add(key.value)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


def _number(_loader: Any, _node: yaml.Node) -> int:
    """Return 0 for any number or date: no field has one, and a long number of YAML 1.1 takes seconds."""
    return 0


for _kind in ("int", "float", "timestamp"):
    _Strict.add_constructor(f"tag:yaml.org,2002:{_kind}", _number)


def load_document(text: str) -> Any:
    """Load one YAML document; raise InvalidKubeconfig without the text."""
    if len(text) > _SIZE_BYTES:
        raise InvalidKubeconfig(f"kubeconfig: is larger than {_SIZE_BYTES // 1024} KiB")
    try:
        _check_events(text)
        return yaml.load(text, Loader=_Strict)  # noqa: S506 -- _Strict is a SafeLoader
    except yaml.YAMLError as error:
        problem = f"is not valid YAML{_line(getattr(error, 'problem_mark', None))}"
    except (ValueError, OverflowError, RecursionError):
        problem = "holds a value that cannot be read"
    raise InvalidKubeconfig(f"kubeconfig: {problem}")  # outside of the except: the parser's error quotes the text


def _line(mark: Any) -> str:
    """Return the line of a mark as text; the marks of the C parser and of the Python parser differ."""
    return f" (line {mark.line + 1})" if mark is not None else ""


def _check_events(text: str) -> None:
    """Check the events first, so that aliases never multiply nodes."""
    depth = documents = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        where = _line(event.start_mark)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidKubeconfig(f"kubeconfig: uses a YAML anchor or alias{where}, which is not allowed")
        if getattr(event, "tag", None) not in (None, "!"):
            raise InvalidKubeconfig(f"kubeconfig: uses a YAML tag{where}, which is not allowed")
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, _OPENING) - isinstance(event, _CLOSING)
        if documents > 1:
            raise InvalidKubeconfig(f"kubeconfig: is more than one YAML document{where}")
        if depth > _DEPTH:
            raise InvalidKubeconfig(f"kubeconfig: is nested more than {_DEPTH} deep{where}")
        if count > _EVENTS:
            raise InvalidKubeconfig(f"kubeconfig: has more than {_EVENTS} YAML nodes")
