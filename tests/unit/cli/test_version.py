"""`version`: this program, the Leases of daemons, and the annotations of Clusters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import yaml
from click.testing import CliRunner

from registry_controller import __version__
from registry_controller.api import meta
from registry_controller.api.daemon_lease import lease_manifest
from registry_controller.api.daemon_report import DaemonReport
from registry_controller.api.formats import FORMATS, write_daemon_version
from registry_controller.api.meta import ClusterUID
from registry_controller.cli import program
from registry_controller.cli.version import read_daemons, read_members

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_without_a_context_it_needs_no_cluster() -> None:
    found = CliRunner().invoke(program, ["version"], env={"KUBECONFIG": "/nowhere"})
    assert (found.exit_code, found.output) == (0, f"registry-controller {__version__}\n")
    document = yaml.safe_load(CliRunner().invoke(program, ["version", "-o", "yaml"]).output)
    assert document == {"client": {"version": __version__, "formats": dict(FORMATS)}, "daemons": []}


def test_a_context_that_cannot_be_read_fails_and_shows_the_rest() -> None:
    found = CliRunner().invoke(program, ["version", "--context", "a"], env={"KUBECONFIG": "/nowhere"})
    assert found.exit_code == 1
    assert found.stdout == f"registry-controller {__version__}\n"
    assert found.stderr.startswith("Error: a: kubeconfig /nowhere: ")


@pytest.mark.parametrize(("age_s", "shown"), [(30, "Lease"), (3600, "Lease, not renewed")])
def test_a_daemon_reports_its_version_in_its_lease(age_s: int, shown: str) -> None:
    report = DaemonReport("1.2.3", "2026-01-01T00:00:00Z", "a", ClusterUID("id"))
    renewed = NOW - timedelta(seconds=age_s)
    ours = lease_manifest(report, namespace="n", holder="pod-1", now=renewed)
    other = {"metadata": {"name": "leader"}, "spec": {}}
    (found,) = read_daemons("kind-a", [other, ours], now=NOW)
    assert (found.cluster, found.daemon, found.version, found.formats) == ("a", "pod-1", "1.2.3", FORMATS)
    assert found.reported_by == shown


def test_a_member_reports_its_version_in_the_annotation_of_its_cluster() -> None:
    def cluster(name: str, annotation: str) -> meta.Manifest:
        return {"metadata": {"name": name, "annotations": {meta.DAEMON: annotation}}}

    new, bare = read_members("", [cluster("b", write_daemon_version("1.2.3")), cluster("c", "")])
    assert (new.cluster, new.version, new.formats, new.reported_by) == ("b", "1.2.3", FORMATS, "Cluster")
    assert (bare.version, bare.formats) == ("", {})
