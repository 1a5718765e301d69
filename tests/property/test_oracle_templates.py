"""Templates as Go renders them: generated ones, and those that people write. W1."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry_controller.api.errors import InvalidObject
from registry_controller.gotemplate import compile_template
from tests.oracle.oracle import is_available, the_oracle

pytestmark = pytest.mark.skipif(not is_available(), reason="neither Go nor TEST_ASSET_ORACLE is there")

OBJECT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "shop-config", "namespace": "web", "uid": "u-1", "labels": {"app": "shop", "b": "2"},
                 "annotations": {"note": "a <b> & 'c'"}},
    "data": {"text": "Hello, World", "empty": "", "lines": "one\ntwo\n", "number": "42", "unicode": "héllo wörld ✓"},
    "spec": {"count": 3, "big": 12345678901, "ratio": 1.5, "tiny": 1e-7, "on": True, "off": False, "none": None,
             "list": ["a", "b", "c"], "mixed": [1, "x", 2.5, True], "nested": {"x": {"y": "deep"}, "z": []}},
}  # fmt: skip
CLUSTER = {"apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "Cluster", "metadata": {"name": "north"},
           "spec": {"clusterID": "id-north"}}  # fmt: skip
DATA = {"Object": OBJECT, "Cluster": CLUSTER, "LocalCluster": {**CLUSTER, "metadata": {"name": "south"}}}

_PATHS = (
    ".Object.GetName", ".Object.GetNamespace", ".Object.GetKind", ".Object.Object.data.text",
    ".Object.Object.data.empty", ".Object.Object.spec.count", ".Object.Object.spec.big",
    ".Object.Object.spec.ratio", ".Object.Object.spec.tiny", ".Object.Object.spec.on", ".Object.Object.spec.off",
    ".Object.Object.spec.list", ".Object.Object.spec.mixed", ".Object.Object.spec.nested",
    ".Object.Object.metadata.labels", ".Object.Object.data.unicode", ".Object.Object.data.lines",
    ".Object.Object.metadata.annotations.note", ".Cluster.GetName", ".LocalCluster.GetName", "$.Object.GetName",
)  # fmt: skip
_CONSTANTS = (
    '"text"',
    '""',
    "`raw`",
    "0",
    "1",
    "-7",
    "3",
    "1.5",
    "1e3",
    "true",
    "false",
    "'x'",
    "0x1F",
    '"a-b_c d"',
    '"[0-9]+"',
)
_ONE = (
    "upper", "lower", "trim", "title", "untitle", "len", "quote", "squote", "not", "print", "html", "js",
    "urlquery", "toString", "int", "int64", "float64", "empty", "first", "last", "rest", "initial", "reverse",
    "uniq", "sortAlpha", "keys", "values", "toJson", "typeOf", "kindOf", "swapcase", "b64enc", "b32enc",
    "sha256sum", "adler32sum", "floor", "ceil", "add1", "list", "cat", "base", "dir", "ext", "clean", "isAbs",
    "compact", "until", "println", "coalesce", "atoi",
)  # fmt: skip
_TWO = (
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "add", "sub", "mul", "div", "mod", "max", "min", "default",
    "contains", "hasPrefix", "hasSuffix", "trimSuffix", "trimPrefix", "trimAll", "trunc", "repeat", "indent",
    "nindent", "join", "splitList", "index", "cat", "list", "append", "prepend", "has", "without", "regexFind",
    "abbrev", "hasKey", "print", "printf", "kindIs", "typeIs", "coalesce", "deepEqual",
)  # fmt: skip
_FORMATS = (
    "%s",
    "%d",
    "%v",
    "%5d|",
    "%-5s|",
    "%05d",
    "%q",
    "%x",
    "%.2f",
    "%t",
    "%T",
    "%+d",
    "%%",
    "%s-%s",
    "%!",
    "%z",
    "%6.2f|",
    "%c",
    "%e",
    "%g",
    "%08.3f",
    "%*d",
)

_atoms = st.one_of(st.sampled_from(_PATHS), st.sampled_from(_CONSTANTS))


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {})".format, st.sampled_from(_ONE), inner),
        st.builds("({} {} {})".format, st.sampled_from(_TWO), inner, inner),
        st.builds("({1} | {0})".format, st.sampled_from(_ONE), inner),
        st.builds('(printf "{}" {})'.format, st.sampled_from(_FORMATS), inner),
        st.builds("(ternary {} {} {})".format, inner, inner, inner),
        st.builds("(replace {} {} {})".format, inner, inner, inner),
        st.builds("(dict {} {})".format, inner, inner),
    )


_values = st.recursive(_atoms, _grow, max_leaves=5)
_trims = st.sampled_from((("{{", "}}"), ("{{ ", " }}"), ("{{- ", " -}}"), ("{{- ", "}}"), ("{{", " -}}")))
_texts = st.sampled_from(("", " ", "a", " a\n", "\n\tb "))


def _statement(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    action = st.builds(lambda trim, value: f"{trim[0]}{value}{trim[1]}", _trims, _values)
    return st.one_of(
        action,
        st.builds("{{{{if {0}}}}}{1}{{{{else}}}}{2}{{{{end}}}}".format, _values, inner, inner),
        st.builds("{{{{if {0}}}}}{1}{{{{else if {2}}}}}{3}{{{{end}}}}".format, _values, inner, _values, inner),
        st.builds("{{{{with {0}}}}}{1}{{{{.}}}}{{{{else}}}}{2}{{{{end}}}}".format, _values, inner, inner),
        st.builds("{{{{range {0}}}}}{1}[{{{{.}}}}]{{{{else}}}}none{{{{end}}}}".format, _values, inner),
        st.builds("{{{{range $i, $e := {0}}}}}{{{{$i}}}}={{{{$e}}}}{1}{{{{end}}}}".format, _values, inner),
        st.builds("{{{{$x := {0}}}}}{1}{{{{$x}}}}".format, _values, inner),
        st.builds('{{{{define "t"}}}}<{{{{.}}}}>{{{{end}}}}{{{{template "t" {0}}}}}'.format, _values),
        st.builds("{0}{1}{2}".format, _texts, inner, _texts),
    )


_templates = st.recursive(_texts, _statement, max_leaves=4)


_ERRORS_OF_OURS = ("no value", "illegal base64")
"""What Go writes and we refuse: nothing, and what could not be decoded."""


def ours(source: str) -> str | None:
    """Render; None for an error."""
    try:
        return compile_template(source, path="value").render(DATA)
    except InvalidObject:
        return None


def gos(source: str) -> str | None:
    """Render as Go does; None for an error, also for those that are only ours."""
    answer = the_oracle().ask({"op": "template", "source": source, "data": DATA})
    if not answer.ok or not isinstance(answer.value, str) or any(words in answer.value for words in _ERRORS_OF_OURS):
        return None
    return answer.value


@given(_templates)
def test_generated_templates_are_rendered_as_go_renders_them(source: str) -> None:
    assert ours(source) == gos(source)


@given(_values)
def test_generated_values_are_those_of_go(value: str) -> None:
    source = f"{{{{ {value} }}}}"
    assert ours(source) == gos(source)
