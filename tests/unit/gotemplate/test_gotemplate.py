"""Go's text/template as we evaluate it: what people write, what is refused, and that nothing is stalled."""

from __future__ import annotations

from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.gotemplate import Limits, compile_template

OBJECT: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Service",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"app": "web"}},
    "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}, {"port": 443}], "none": None},
}  # fmt: skip
DATA = {
    "Object": OBJECT,
    "Cluster": {"kind": "Cluster", "metadata": {"name": "north"}, "spec": {"clusterID": "id-1"}},
    "LocalCluster": None,
}


def render(source: str, **limits: int) -> str:
    return compile_template(source, path="value", limits=Limits(**limits)).render(DATA)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('{{ printf "%s-%s" .Object.GetName .Cluster.GetName }}', "web-north"),
        ("{{ .Object.Name }}/{{ .Object.Namespace }}/{{ .Object.Kind }}", "web/shop/Service"),
        ("{{ .Object.spec.clusterIP }} {{ .Object.Spec.ClusterIP }}", "10.0.0.1 10.0.0.1"),
        ("{{ .Cluster.Spec.ClusterID }}", "id-1"),
        ("{{ .Object.Object.metadata.name }}", "web"),
        ('{{ index .Object.GetLabels "app" }}', "web"),
        ("{{ range $i, $p := .Object.spec.ports }}{{ if $i }},{{ end }}{{ $p.port }}{{ end }}", "80,443"),
        ('{{ .Object.spec.missing | default "none" }}', "none"),
        ('{{ coalesce .Object.spec.missing .Object.spec.none "x" }}', "x"),
        ("{{ if .Object.spec.missing.deeper }}a{{ else }}b{{ end }}", "b"),
        ("{{ with .Object.spec.missing }}a{{ end }}", ""),
        ("a {{- /* said to nobody */ -}} b", "ab"),
        ("{{ define `t` }}<{{ . }}>{{ end }}{{ template `t` .Object.GetName }}", "<web>"),
        ("{{ block `b` .Object }}{{ .GetKind }}{{ end }}", "Service"),
        (
            "{{ range until 5 }}{{if eq . 1}}{{continue}}{{end}}{{if eq . 3}}{{break}}{{end}}{{ . }}{{ end }}",
            "02",
        ),
        ("{{ $x := 1 }}{{ range until 3 }}{{ $x = add $x . }}{{ end }}{{ $x }}", "4"),
        ('{{ regexReplaceAll "([a-z]+)" "web" "<$1>" }}', "<web>"),
        ("{{ toJson .Object.metadata.labels }}", '{"app":"web"}'),
    ],
)  # fmt: skip
def test_what_people_write_is_rendered(source: str, text: str) -> None:
    assert render(source) == text


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ .Object.spec.missing }}", "template 1:4: cannot print nil: .Object.spec.missing does not exist"),
        ("ab\n  {{ .Other.x }}", "template 2:6: .Other does not exist; available: .Object, .Cluster"),
        ("{{ .Object.spec.none.deeper }}", "template 1:4: nil has no field deeper"),
        ("{{ .Object.GetName.x }}", "template 1:4: type string has no field x"),
        ("{{ .Object }}", "a whole object cannot be printed"),
        ('{{ env "HOME" }}', 'template 1:4: unknown function "env"'),
        ("{{ now }}", 'template 1:4: unknown function "now"'),
        ("{{ $x }}", "template 1:4: undefined variable $x"),
        ("{{ if true }}", "template 1:14: missing {{ end }} of an action"),
        ("{{ .Object.GetName", "unclosed action"),
        ("{{ upper 1 }}", "template 1:4: upper: wrong type of argument; expected string; got int"),
        ('{{ b64dec "!" }}', "template 1:4: b64dec: cannot be decoded"),
        ('{{ regexMatch "(" "x" }}', "template 1:4: regexMatch: not a regular expression in Go's syntax"),
        ('{{ fail "password" }}', "template 1:4: fail: the template calls fail"),
        ("{{ eq 1 `a` }}", "template 1:4: eq: incompatible types for comparison"),
    ],
)
def test_what_cannot_be_done_is_said_with_its_place(source: str, said: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        render(source)
    assert said in str(caught.value)
    assert str(caught.value).startswith("value: ")
    assert "password" not in str(caught.value)


def test_limits_are_those_that_are_given() -> None:
    with pytest.raises(InvalidObject, match="writes more than 10"):
        render("{{ .Object.GetName }} {{ .Object.GetName }} {{ .Object.GetName }}", output=10)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("fromJson", "later ones and Helm's own do not exist"),
        ("toYaml", "later ones and Helm's own do not exist"),
        ("uper", "did you mean upper?"),
        ("now", "functions that read the process, the network, the clock or randomness do not exist"),
        ("genCA", "functions that read the process, the network, the clock or randomness do not exist"),
        ("randAlphaNum", "functions that read the process, the network, the clock or randomness do not exist"),
    ],
)
def test_an_unknown_function_is_refused_with_its_own_cause(name: str, why: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        compile_template(f"{{{{ {name} . }}}}", path="p")
    assert f'unknown function "{name}"; ' in str(caught.value)
    assert str(caught.value).endswith(why)
