"""Traces of real daemons, received over OTLP/HTTP: a reconcile, and its requests to the API server."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.group import NAMESPACE, SECRET, Member, eventually, grant, joined_group, rule, secret

CANARY = "canary-of-a-secret-9d41c7"
NAME = "registry_controller.name"


class Collector:
    """Receives traces on loopback."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def spans(self) -> list[Span]:
        found = []
        for body in list(self.bodies):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                found += [span for scope in resource.scope_spans for span in scope.spans]
        return found

    def services(self) -> set[str]:
        resources = (r for body in list(self.bodies) for r in ExportTraceServiceRequest.FromString(body).resource_spans)
        return {a.value.string_value for r in resources for a in r.resource.attributes if a.key == "service.name"}


def attributes(span: Span) -> dict[str, str | int]:
    values = ((a.key, a.value) for a in span.attributes)
    return {key: value.string_value or value.int_value for key, value in values}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    found = Collector()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.fixture(scope="module")
def members(collector: Collector) -> Iterator[list[Member]]:
    values = (
        "extraEnv[0].name=OTEL_EXPORTER_OTLP_ENDPOINT",
        f"extraEnv[0].value=http://127.0.0.1:{collector.port}",
    )
    with joined_group(2, prefix="traces", values=values, canaries=(CANARY,)) as found:
        yield found


def test_a_copy_has_a_span_with_its_requests_and_no_data(members: list[Member], collector: Collector) -> None:
    first, second = members
    for member in members:
        grant(member, "secrets", [""], ["secrets"])
    first.create(secret("traced", {"password": CANARY}))
    first.apply(rule("traced", SECRET, {"match": [{"objectKey": {"name": "traced"}}]}))
    eventually(lambda: second.find("-n", "default", "secret", "traced"), what="the copy")

    def find_reconcile() -> Span | None:
        for span in collector.spans():
            shown = attributes(span)
            if (
                span.name == "reconcile"
                and (shown["registry_controller.kind"], shown[NAME]) == ("Secret", "traced")
                and shown["registry_controller.decision"] == "Apply"
            ):
                return span
        return None

    found = eventually(find_reconcile, what="the span of the copy")
    assert found is not None
    shown = attributes(found)
    assert shown["registry_controller.owner"] == first.name
    assert shown["registry_controller.rule"] == "traced"
    children = [span for span in collector.spans() if span.parent_span_id == found.span_id]
    assert all(span.trace_id == found.trace_id for span in children)
    writes = [attributes(span) for span in children if span.name.startswith("POST ")]
    assert any(
        write["url.template"] == "/api/v1/namespaces/{namespace}/secrets"
        and write["http.response.status_code"] == 201
        and f"{write['server.address']}:{write['server.port']}" in second.cluster.server
        for write in writes
    ), [attributes(span) for span in children]
    assert collector.services() == {"registry-controller"}


def test_no_span_holds_data_of_a_secret(members: list[Member], collector: Collector) -> None:
    sent = b"".join(collector.bodies)
    assert b"reconcile" in sent
    for member in members:
        tokens = member.get("-n", NAMESPACE, "secret", member.name)["data"]
        values = [CANARY.encode(), base64.b64encode(CANARY.encode()).rstrip(b"=")]
        values += [base64.b64decode(value) for value in tokens.values()]
        assert not any(value in sent for value in values if len(value) > 12)
