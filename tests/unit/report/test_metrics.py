"""The metrics and the table that describes them."""

from __future__ import annotations

import re

import pytest

from registry_controller import __version__
from registry_controller.report.metrics import METRICS, PREFIX, Metrics


def test_every_row_is_a_metric_of_that_type_with_those_labels() -> None:
    metrics = Metrics()
    for row in METRICS:
        metric = getattr(metrics, row.name)
        assert (metric._type, metric._labelnames, metric._documentation) == (row.type, row.labels, row.help)
    exposed = {found.name for found in metrics.registry.collect() if found.name.startswith(PREFIX)}
    assert exposed == {PREFIX + row.name.removesuffix("_total") for row in METRICS}


def test_what_happened_is_exposed_under_our_prefix() -> None:
    metrics = Metrics()
    metrics.decided(decision="Apply", reason="Changed")
    metrics.wrote(verb="create", kind="ConfigMap", result="ok", seconds=0.003)
    metrics.watch_events_total.labels(peer="b", kind="Secret").inc()
    metrics.workqueue_depth.set(3)
    body, content_type = metrics.render()
    text = body.decode()
    assert content_type.startswith("text/plain")
    assert 'registrycontroller_decisions_total{decision="Apply",reason="Changed"} 1.0' in text
    assert 'registrycontroller_write_seconds_bucket{le="0.005",verb="create"} 1.0' in text
    assert "registrycontroller_workqueue_depth 3.0" in text
    assert 'registrycontroller_build_info{python="' in text
    assert f'version="{__version__}"' in text
    assert "process_resident_memory_bytes" in text
    assert not re.search("_created", text)


def test_openmetrics_is_spoken_to_those_who_ask() -> None:
    body, content_type = Metrics().render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_a_peer_that_left_leaves_no_series_behind() -> None:
    metrics = Metrics()
    metrics.watch_events_total.labels(peer="b", kind="Secret").inc()
    metrics.held.labels(peer="b", reason="x").set(1)
    metrics.watch_events_total.labels(peer="c", kind="Secret").inc()
    metrics.forget_peer("b")
    metrics.forget_peer("never-known")
    text = metrics.render()[0].decode()
    assert 'peer="b"' not in text
    assert 'peer="c"' in text


def test_two_daemons_in_one_process_do_not_share() -> None:
    one, two = Metrics(), Metrics()
    one.workqueue_depth.set(1)
    assert "registrycontroller_workqueue_depth 0.0" in two.render()[0].decode()


@pytest.mark.parametrize("row", METRICS, ids=lambda row: row.name)
def test_no_label_is_a_name_of_an_object(row: object) -> None:
    assert not set(getattr(row, "labels")) & {"name", "namespace", "object", "uid", "target", "message"}  # noqa: B009
