"""README and docs say what is so: tables as in the code, links that lead somewhere, YAML that the code reads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from registry_controller import settings
from registry_controller.api.cluster import read_cluster
from registry_controller.api.feature import read_feature
from registry_controller.api.syncrule import read_rule
from registry_controller.planner.plan import PlanAction
from registry_controller.report.metrics import METRICS, PREFIX
from tests.docs.documents import ALL_TEXT, DOCUMENTS, ROOT, Block, anchors, blocks, table

BLOCKS = [block for path in DOCUMENTS for block in blocks(path)]
SHELL = [block for block in BLOCKS if block.language in ("sh", "bash", "shell", "console")]
# Examples are tested in unit and e2e, the resources of GitOps tools in test_gitops.
YAML = [block for block in BLOCKS if block.language == "yaml" and block.tag not in ("example", "gitops", "rights")]
RULES, OPTIONS = ROOT / "docs" / "rules.md", ROOT / "docs" / "options.md"
MONITORING, PLAN = ROOT / "docs" / "monitoring.md", ROOT / "docs" / "explain-and-plan.md"
DEVELOPMENT, PACKAGE = ROOT / "docs" / "development.md", ROOT / "registry_controller"
CRD = ROOT / "crds" / "clusterregistry.k8s.cisco.com_resourcesyncrules.yaml"
VALUES = ROOT / "deploy" / "helm" / "cluster-registry" / "values.yaml"


def read_values(values: dict[str, Any], known: Any = None) -> None:
    """Hold values for the chart against those that it has."""
    known = yaml.safe_load(VALUES.read_text(encoding="utf-8")) if known is None else known
    for name, value in values.items():
        assert name in known
        if isinstance(value, dict):
            read_values(value, known[name])


READERS = {"rule": read_rule, "feature": read_feature, "cluster": read_cluster, "values": read_values}


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.name)
def test_a_command_is_run_by_a_test_or_says_why_not(block: Block) -> None:
    assert re.fullmatch(r'run=(once|walk)|shown="[^"]{10,}"', block.tag), block.tag


@pytest.mark.parametrize("block", [block for block in SHELL if block.tag == "run=once"], ids=lambda block: block.name)
def test_a_command_that_needs_no_cluster_works(block: Block) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text], cwd=ROOT, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", YAML, ids=lambda block: block.name)
def test_a_yaml_block_is_an_object_that_the_daemon_reads(block: Block) -> None:
    manifest = yaml.safe_load(block.text)
    READERS[block.tag](manifest)


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_an_example_is_named_in_the_docs_and_readable(path: Path) -> None:
    assert any(f"docs/examples/{path.name}" in document.read_text(encoding="utf-8") for document in DOCUMENTS)
    for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        if manifest["kind"] == "ResourceSyncRule":
            read_rule(manifest)


def test_ten_commands_lead_from_nothing_to_a_copied_secret() -> None:
    scripts = [block.text.replace("\\\n", "") for block in blocks(ROOT / "README.md") if block.language == "sh"]
    commands = [line for text in scripts if not text.startswith("address()") for line in text.splitlines()]
    last = next(number for number, line in enumerate(commands, 1) if "wait --for=create secret/hello" in line)
    assert last == 10, commands[:last]


@pytest.mark.parametrize("path", ALL_TEXT, ids=lambda path: path.name)
def test_a_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]*(?:#[^)\s]*)?)\)", path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        found = (path.parent / name).resolve() if name else path
        assert found.exists(), f"{path.name} links to {target}"
        assert not anchor or anchor in anchors(found), f"{path.name} links to {target}"


def test_the_table_of_changes_names_files_that_exist() -> None:
    rows = table(DEVELOPMENT, header="you want to change")
    assert len(rows) >= 12
    named = {name for row in rows for name in re.findall(r"`([^`]+(?:/|\.[a-z]+))`", " ".join(row[1:]))}
    assert {name for name in named if not any((root / name).exists() for root in (PACKAGE, ROOT))} == set()


def test_the_table_of_options_is_that_of_the_code() -> None:
    assert settings.markdown() in OPTIONS.read_text(encoding="utf-8")


def test_what_has_no_effect_is_named_in_the_docs() -> None:
    text = OPTIONS.read_text(encoding="utf-8")
    named = {option.environment or option.flag for option in settings.IGNORED} | set(settings.IGNORED_PREFIXES)
    assert {name for name in named if f"`{name}`" not in text} == set()


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    rows = [
        [f"`{PREFIX}{m.name}`", m.type, ", ".join(f"`{label}`" for label in m.labels), m.help] for m in METRICS
    ]  # fmt: skip
    assert table(MONITORING, header="metric") == rows


def test_the_table_of_states_is_that_of_the_definition() -> None:
    schema = yaml.safe_load((ROOT / "crds" / "clusterregistry.k8s.cisco.com_clusters.yaml").read_text("utf-8"))
    status = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    rows = table(MONITORING, header="state of a Cluster")
    assert {row[0].strip("`") for row in rows} == {state for state in status["state"]["enum"] if state}


def test_the_table_of_a_plans_actions_is_that_of_the_code() -> None:
    assert [row[0].strip("`") for row in table(PLAN, header="action")] == [action.value for action in PlanAction]


def test_the_rules_reference_has_every_field_of_spec_in_its_order() -> None:
    assert [row[0].strip("`") for row in table(RULES, header="field")] == list(_paths(_properties()["spec"], "spec"))


def test_the_rules_reference_has_every_count_of_the_status() -> None:
    text = RULES.read_text(encoding="utf-8")
    counts = _properties()["status"]["properties"]["clusters"]["items"]["properties"]
    named = {name for name, field in counts.items() if field.get("type") == "integer"}
    assert {name for name in named if f"`{name}`" not in text} == set()


def test_the_rules_reference_has_every_reason_of_the_conditions() -> None:
    code = (ROOT / "registry_controller" / "core" / "status" / "rule.py").read_text(encoding="utf-8")
    told = " ".join(cell for row in table(RULES, header="condition") for cell in row)
    said = set(re.findall(r'"([A-Z][A-Za-z]+)"', code)) - {"True", "False"}
    assert {"ActionNeeded", "NotStalled", "Waiting"} <= said
    assert {word for word in said if f"`{word}`" not in told} == set()


def _properties() -> dict[str, Any]:
    schema = yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]["versions"][0]["schema"]
    properties: dict[str, Any] = schema["openAPIV3Schema"]["properties"]
    return properties


def _paths(node: dict[str, Any], path: str) -> Iterator[str]:
    """List the leaves of a schema: [] is a list's item, {} a map's value."""
    if node.get("type") == "array":
        yield from _paths(node["items"], f"{path}[]")
    elif "properties" in node:
        for name, field in node["properties"].items():
            yield from _paths(field, f"{path}.{name}")
    else:
        yield path + ("{}" if "additionalProperties" in node else "")
