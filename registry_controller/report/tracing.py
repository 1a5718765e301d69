"""Traces by OpenTelemetry, where the standard environment variables ask for them.

Laws: nothing here imports OpenTelemetry before the variables ask for it · no span holds a body, a header, a query, an
object's content or the text of an error · a failed export neither stops nor delays the daemon.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from yarl import URL

from registry_controller import __version__
from registry_controller.report.logs import get_logger

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, StatusCode

log = get_logger(__name__)

EXTRA: Final = "registry-controller[otel]"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_FLUSH_S: Final = 5.0


class Tracing:
    """Makes the spans of one process, and exports them by `provider`."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import propagate, trace  # noqa: PLC0415  only where the variables ask for it

        self._provider = provider
        self._tracer = provider.get_tracer("registry_controller", __version__)
        self._inject = propagate.inject
        self._kinds = trace.SpanKind
        self._error = trace.StatusCode.ERROR

    @contextlib.contextmanager
    def reconcile(self, *, waited_s: float) -> Iterator[ReconcileSpan]:
        """Open the span of a reconcile: it begins `waited_s` seconds ago, with the event that enqueued the key."""
        start_ns = time.time_ns() - int(waited_s * 1e9)
        with self._tracer.start_as_current_span(
            "reconcile",
            start_time=start_ns,
            attributes={"registry_controller.queue.seconds": round(waited_s, 6)},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            span.add_event("dequeued")
            yield ReconcileSpan(span, self._error)

    @contextlib.contextmanager
    def request(self, method: str, path: str, *, server: str, headers: dict[str, str]) -> Iterator[RequestSpan]:
        """Open the span of a request, and add its context to the headers.

        The messages of exceptions are not recorded: an API server quotes objects in them.
        """
        template, (address, port) = url_template(path), _address_of(server)
        with self._tracer.start_as_current_span(
            f"{method} {template}",
            kind=self._kinds.CLIENT,
            attributes={
                "http.request.method": method, "url.template": template,
                "server.address": address, "server.port": port,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:  # fmt: skip
            self._inject(headers)
            try:
                yield RequestSpan(span, self._error)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(self._error)
                raise

    def close(self, timeout_s: float = _FLUSH_S) -> None:
        """Export the last spans, for `timeout_s` seconds at most."""
        flushing = threading.Thread(target=self._provider.shutdown, name="flush of traces", daemon=True)
        flushing.start()
        flushing.join(timeout_s)


class ReconcileSpan:
    """The span of a reconcile."""

    def __init__(self, span: Span, error: StatusCode) -> None:
        self._span = span
        self._error = error

    def end(self, *, attributes: Mapping[str, str], error: str) -> None:
        """Record the attributes of the reconcile; `error` is the reason of a failure, and empty without one."""
        self._span.set_attributes({f"registry_controller.{name}": text for name, text in attributes.items() if text})
        if error:
            self._span.set_attribute("error.type", error)
            self._span.set_status(self._error)


class RequestSpan:
    """The span of a request to an API server."""

    def __init__(self, span: Span, error: StatusCode) -> None:
        self._span = span
        self._error = error

    def answered(self, status: int) -> None:
        """Record the status code of the answer."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= 400:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(self._error)


def start_tracing(environ: Mapping[str, str]) -> Tracing | None:
    """Return the traces that the environment asks for; None without them, and where they cannot be exported."""
    if not is_requested(environ):
        return None
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        log.warning(
            "traces are not exported: OTEL_EXPORTER_OTLP_PROTOCOL has a protocol that is not supported",
            protocol=protocol,
            advice="set it to http/protobuf, and the endpoint to the collector's port for HTTP, often 4318",
        )
        return None
    try:
        provider = _build_provider(environ)
    except ModuleNotFoundError:
        log.warning("traces are not exported: the environment asks for them, and the extra is missing", install=EXTRA)
        return None
    except Exception as error:  # a variable that the SDK refuses; the daemon does its work without traces
        log.warning(
            "traces are not exported: the OpenTelemetry SDK refuses a variable OTEL_*", cause=type(error).__name__
        )
        return None
    log.info("traces are exported")
    return Tracing(provider)


def is_requested(environ: Mapping[str, str]) -> bool:
    """Return whether the standard variables ask for traces over OTLP."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = {word.strip() for word in environ.get("OTEL_TRACES_EXPORTER", "").split(",")} - {""}
    return (not exporters or "otlp" in exporters) and any(environ.get(name) for name in _ENDPOINTS)


@lru_cache(maxsize=4096)
def url_template(path: str) -> str:
    """Return the path of a request with `{namespace}` and `{name}` for names, and without its query."""
    parts = path.partition("?")[0].strip("/").split("/")
    start = {"api": 2, "apis": 3}.get(parts[0], len(parts))
    head, rest = parts[:start], parts[start:]
    if not rest:
        return "/" + "/".join(head)
    if rest[0] == "namespaces" and len(rest) > 2:
        head, rest = [*head, "namespaces", "{namespace}"], rest[2:]
    if len(rest) > 1:
        rest[1] = "{name}"
    return "/" + "/".join(head + rest)


@lru_cache(maxsize=1024)
def _address_of(server: str) -> tuple[str, int]:
    url = URL(server)
    return url.host or "", url.port or 443


def _build_provider(environ: Mapping[str, str]) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    names = {"service.version": __version__}
    if not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        names["service.name"] = "registry-controller"
    provider = TracerProvider(resource=Resource.create(names), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
