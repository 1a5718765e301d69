"""Traces: when the environment asks for them, what a span holds, and what it never holds."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from registry_controller.api.errors import Forbidden
from registry_controller.api.meta import ClusterUID, Target
from registry_controller.core.decision.decision import Hold, Reason
from registry_controller.core.decision.state import Origin, TargetState
from registry_controller.kube.transport import Transport
from registry_controller.report import logs
from registry_controller.report.tracing import EXTRA, Tracing, is_requested, start_tracing, url_template
from registry_controller.sync.reconcile_spans import ReconcileTracer
from registry_controller.sync.reconciler import Judgment, Reconciliation, Result

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
OWNER = ClusterUID("owner")
TARGET = Target("", "Secret", "default", "one")
SERVER = "https://127.0.0.1:6443"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> Iterator[Tracing]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    yield Tracing(provider)
    provider.shutdown()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "True"}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "false"}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_the_standard_variables_ask_for_traces(environ: dict[str, str], expected: bool) -> None:
    assert is_requested(environ) is expected


def test_without_the_variables_nothing_is_imported() -> None:
    program = (
        "import sys, registry_controller.process\n"
        "from registry_controller.report.tracing import start_tracing\n"
        "assert start_tracing({}) is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


class Lines:
    """The log of a test, as JSON lines."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    lines = Lines()
    monkeypatch.setattr(logs._outlet, "stream", lines.stream)
    monkeypatch.setattr(logs._outlet, "level", logging.INFO)
    handler = logs._ForeignHandler()
    logging.getLogger().addHandler(handler)
    yield lines
    logging.getLogger().removeHandler(handler)


def test_one_line_names_the_missing_extra(logged: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert start_tracing(ENDPOINT) is None
    (line,) = logged.read()
    assert line["level"] == "warning"
    assert line["install"] == EXTRA


def test_another_protocol_is_named(logged: Lines) -> None:
    assert start_tracing(ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}) is None
    (line,) = logged.read()
    assert (line["level"], line["protocol"]) == ("warning", "grpc")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/version", "/version"),
        ("/api/v1", "/api/v1"),
        ("/api/v1/secrets?watch=1&labelSelector=a%3Db", "/api/v1/secrets"),
        ("/api/v1/namespaces/kube-system", "/api/v1/namespaces/{name}"),
        ("/api/v1/namespaces/a/secrets", "/api/v1/namespaces/{namespace}/secrets"),
        ("/api/v1/namespaces/a/secrets/b?dryRun=All", "/api/v1/namespaces/{namespace}/secrets/{name}"),
        ("/apis/g.io/v1/things/b/status", "/apis/g.io/v1/things/{name}/status"),
        ("/api/v1/namespaces/a/serviceaccounts/b/token", "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"),
    ],
)
def test_a_template_has_no_names_and_no_query(path: str, expected: str) -> None:
    assert url_template(path) == expected


def hold(error: Forbidden | None = None) -> Reconciliation:
    state = TargetState(
        TARGET, (), None, ClusterUID("here"), frozenset((OWNER,)), frozenset((OWNER,)), origin=Origin(rule="rule")
    )
    decision = Hold(Reason.OWNER_SILENT, OWNER)
    return Reconciliation(Judgment(state, (), decision), Result(decision), error)


async def test_a_reconcile_is_the_parent_of_its_requests(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    headers: dict[str, str] = {}

    async def request() -> None:
        with tracing.request("GET", "/api/v1/namespaces/a/secrets/b", server=SERVER, headers=headers) as span:
            await asyncio.sleep(0)
            span.answered(200)

    async def reconcile(target: Target) -> Reconciliation:
        async with asyncio.TaskGroup() as scope:
            scope.create_task(request())
        return hold()

    began_ns = time.time_ns()
    await ReconcileTracer(tracing, name_of=lambda _: "b").trace(TARGET, 2.0, reconcile)
    child, parent = spans.get_finished_spans()
    assert parent.parent is None
    assert parent.start_time is not None
    assert parent.start_time < began_ns - 1_000_000_000
    assert dict(parent.attributes or {}) == {
        "registry_controller.queue.seconds": 2.0, "registry_controller.rule": "rule", "registry_controller.owner": "b",
        "registry_controller.kind": "Secret", "registry_controller.namespace": "default",
        "registry_controller.name": "one", "registry_controller.decision": "Hold",
        "registry_controller.reason": Reason.OWNER_SILENT.value,
    }  # fmt: skip
    assert child.parent is not None
    assert child.parent.span_id == parent.context.span_id
    assert child.kind is SpanKind.CLIENT
    assert dict(child.attributes or {}) == {
        "http.request.method": "GET", "url.template": "/api/v1/namespaces/{namespace}/secrets/{name}",
        "server.address": "127.0.0.1", "server.port": 6443, "http.response.status_code": 200,
    }  # fmt: skip
    assert headers["traceparent"].split("-")[1:3] == [
        f"{child.context.trace_id:032x}",
        f"{child.context.span_id:016x}",
    ]


async def test_a_failed_reconcile_has_the_reason_and_no_text(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    async def reconcile(target: Target) -> Reconciliation:
        return hold(Forbidden("secret words", reason="Forbidden"))

    await ReconcileTracer(tracing, name_of=str).trace(TARGET, 0.0, reconcile)
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert dict(span.attributes or {})["error.type"] == "Forbidden"
    assert "secret words" not in span.to_json()


def test_a_failed_request_has_the_class_and_no_text(tracing: Tracing, spans: InMemorySpanExporter) -> None:
    with (
        pytest.raises(aiohttp.ClientError),
        tracing.request("POST", "/api/v1/namespaces/a/secrets", server=SERVER, headers={}),
    ):
        raise aiohttp.ClientError("secret words")
    with tracing.request("GET", "/version", server=SERVER, headers={}) as found:
        found.answered(403)
    failed, refused = spans.get_finished_spans()
    assert dict(failed.attributes or {})["error.type"] == "ClientError"
    assert "secret words" not in failed.to_json()
    assert dict(refused.attributes or {})["error.type"] == "403"
    assert refused.status.status_code is StatusCode.ERROR


def test_connections_are_not_traced_by_default() -> None:
    assert Transport.tracer is None


def test_the_last_export_does_not_delay_the_end() -> None:
    released = threading.Event()
    provider: Any = SimpleNamespace(get_tracer=lambda *_: None, shutdown=released.wait)
    Tracing(provider).close(0.01)
    released.set()


def test_a_span_without_a_collector_is_dropped_with_a_line_in_our_format(
    logged: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    found = start_tracing(ENDPOINT)
    assert found is not None
    with found.request("GET", "/version", server=SERVER, headers={}) as span:
        span.answered(200)
    found.close(60.0)
    shown = logged.read()
    assert any(line["logger"].startswith("opentelemetry") for line in shown)
