"""The chart's alerts and dashboard, held against the metrics that the daemon exports, and against the docs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.programs.scrape import panel_queries
from registry_controller.core.decision import decision as decisions
from registry_controller.report.metrics import METRICS, PREFIX

ROOT = Path(__file__).parents[2]
FILES = ROOT / "deploy" / "helm" / "cluster-registry" / "files"
DOCS = ROOT / "docs" / "alerts.md"
(GROUP,) = yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in GROUP["rules"]}
DASHBOARD = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ENDINGS = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
EXPORTED = {f"{PREFIX}{metric.name}{end}": metric for metric in METRICS for end in ENDINGS[metric.type]}
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}  # of prometheus_client's ProcessCollector
SCRAPED = {"namespace", "cluster", "instance", "pod", "le"}  # what a scrape, or the format, adds


def expressions() -> Iterator[tuple[str, str]]:
    for name, alert in ALERTS.items():
        yield name, alert["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.mark.parametrize(("name", "text"), list(expressions()))
def test_every_expression_names_metrics_that_are_exported(name: str, text: str) -> None:
    named = set(re.findall(rf"\b(?:{PREFIX}|process_)[a-z_]+", text))
    assert named, name
    assert named <= set(EXPORTED) | PROCESS, name


@pytest.mark.parametrize(("name", "text"), list(expressions()))
def test_every_label_is_one_of_the_metric(name: str, text: str) -> None:
    known = SCRAPED | {label for metric in re.findall(rf"\b{PREFIX}[a-z_]+", text) for label in EXPORTED[metric].labels}
    named = set(re.findall(r'([a-z_]+)(?:=~|!~|!=|=)"', text))
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", text):
        named |= {label.strip() for label in group.split(",")}
    assert named <= known, name


def test_every_variable_of_grafana_is_replaced_before_prometheus_is_asked() -> None:
    assert [query for _, query in panel_queries() if "$" in query] == []


def test_every_metric_is_on_the_dashboard() -> None:
    text = json.dumps(DASHBOARD)
    assert {metric.name for metric in METRICS if f"{PREFIX}{metric.name}" not in text} == set()


def test_the_dashboard_shows_decisions_by_the_words_of_the_code() -> None:
    shown = {found for _, text in expressions() for found in re.findall(r'decision="(\w+)"', text)}
    assert shown
    assert all(hasattr(decisions, word) for word in shown)
    reasons = {found for _, text in expressions() for found in re.findall(r'reason="(\w+)"', text)}
    assert reasons <= {reason.value for reason in decisions.Reason}


def test_the_panels_have_places_of_their_own() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_rows_of_the_dashboard_are_these() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Group", "Peers", "Rules", "Latency", "Queue", "Deletions and their limit", "Daemon"]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_and_where_the_remedy_is(name: str) -> None:
    alert = ALERTS[name]
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert alert["labels"]["severity"] in ("critical", "warning")
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page == "docs/alerts.md"
    headings = re.findall(r"^## (.+)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {heading.lower() for heading in headings}


def test_the_docs_have_a_section_for_each_alert_and_for_nothing_else() -> None:
    headings = re.findall(r"^## (ClusterRegistry\w+)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(ALERTS)
