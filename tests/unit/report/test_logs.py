"""Log lines: their form, what never gets out, and that they never raise."""

from __future__ import annotations

import datetime
import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from registry_controller.api.errors import InvalidObject
from registry_controller.api.meta import ObjectKey, Target
from registry_controller.core.decision.decision import Reason
from registry_controller.report import logs
from registry_controller.report.lines import OURS, describe
from tests.process_logging import restored_logging


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    with restored_logging():
        yield


Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Configure JSON lines and read back what was written since the last look."""
    stream = io.StringIO()  # not pytest's own: that of the setup is another one than that of the test
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        logs.configure(format="json", verbosity=0)

    def read() -> list[dict[str, Any]]:
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    return read


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_a_line_is_json_with_a_constant_message_and_its_values(lines: Lines) -> None:
    logs.get_logger("registry_controller.sync.recorder").info("copied", target="ConfigMap a/b", count=3, peer=None)
    (line,) = lines()
    moment = line.pop("ts")
    assert line == {
        "level": "info",
        "logger": "sync.recorder",
        "msg": "copied",
        "target": "ConfigMap a/b",
        "count": 3,
        "peer": None,
    }
    assert moment.endswith("Z")
    assert len(moment) == len("2026-01-01T00:00:00.000Z")


def test_an_object_is_its_kind_namespace_and_name(lines: Lines) -> None:
    """As the logs of Kubernetes name objects, without empty parts."""
    logs.get_logger("x").info(
        "copied",
        target=Target("apps", "Deployment", "a", "b"),
        namespace=Target("", "Namespace", "", "a"),
        secret=ObjectKey("a", "b"),
        clusters=[ObjectKey("", "c"), ObjectKey("", "d")],
    )
    (line,) = lines()
    assert line["target"] == {"kind": "Deployment", "group": "apps", "namespace": "a", "name": "b"}
    assert line["namespace"] == {"kind": "Namespace", "name": "a"}
    assert line["secret"] == {"namespace": "a", "name": "b"}
    assert line["clusters"] == [{"name": "c"}, {"name": "d"}]


def test_times_are_utc_and_other_values_have_no_python(lines: Lines) -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    logs.get_logger("x").info("made", expires=moment, reason=Reason.CREATE, names=("a", "b"), large=10**400)
    (line,) = lines()
    assert line["expires"] == "2026-01-02T02:04:05.000Z"
    assert line["reason"] == Reason.CREATE.value
    assert line["names"] == ["a", "b"]
    assert line["large"] == 10**400


def test_a_console_line_names_objects_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(format="console", verbosity=0)
    key, target = ObjectKey("a", "b"), Target("apps", "Deployment", "a", "b")
    logs.get_logger("x").info("said", target=target, secret=key, names=["a", "b"], none=[])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO    x: said target='Deployment.apps a/b' secret=a/b names=a,b none=''")


def test_percent_signs_and_braces_in_our_messages_are_text(lines: Lines) -> None:
    logs.get_logger("x").info("100 % {sure}", value="%s {}")
    assert (lines()[0]["msg"], OURS) == ("100 % {sure}", "registry_controller")


def test_values_never_hide_the_lines_own_fields(lines: Lines) -> None:
    logs.get_logger("x").info("said", ts=1, level="no", logger="no", msg="no", message="yes", name="n", args=1)
    (line,) = lines()
    assert (line["msg"], line["level"], line["logger"], line["ts_"], line["msg_"]) == ("said", "info", "x", 1, "no")
    assert (line["message"], line["name"], line["args"]) == ("yes", "n", 1)


@pytest.mark.parametrize("form", ["json", "console"])
def test_logging_never_raises(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(format=form, verbosity=1)
    logs.get_logger("x").info("said", value=Broken(), surrogate="\ud800", number=float("nan"), data=b"\x00")
    logs.get_logger("x").exception("without one")
    assert "said" in capsys.readouterr().err


def test_a_console_line_quotes_what_would_break_it(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(format="console", verbosity=0)
    logs.get_logger("x").warning("said", value="two words\nand a line", plain="a/b", nothing="")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r"WARNING x: said value='two words\nand a line' plain=a/b nothing=''")


@pytest.mark.parametrize(("verbosity", "count"), [(0, 1), (1, 2), (9, 2)])
def test_verbosity_is_about_our_own_lines(verbosity: int, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(format="json", verbosity=verbosity)
    logs.get_logger("x").debug("detail")
    logs.get_logger("x").info("change")
    assert len(capsys.readouterr().err.splitlines()) == count


@pytest.mark.parametrize(
    "name", ["kopf", "kopf.objects", "kopf._cogs.clients.watching", "aiohttp.client", "kubernetes"]
)
def test_details_of_libraries_never_get_out(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(format="json", verbosity=9)
    library = logging.getLogger(name)
    level = library.level
    library.setLevel(logging.DEBUG)  # even where somebody opens the tap
    try:
        library.debug("body: %s", {"data": "hunter2"})
        library.info("body: %s", {"data": "hunter2"})
    finally:
        library.setLevel(level)
    assert capsys.readouterr().err == ""


def test_a_librarys_warning_is_cut_where_an_object_would_begin(lines: Lines) -> None:
    logging.getLogger("kopf").warning("Ignoring an unsupported event type: %r", {"data": "hunter2"})
    logging.getLogger("kopf").warning("first line\nhunter2")
    logging.getLogger("kopf").error("answer: %r", b"hunter2")
    assert [line["msg"] for line in lines()] == [
        "Ignoring an unsupported event type:…",
        "first line…",
        "answer:…",
    ]


def test_what_kopf_says_of_every_retry_is_said_once_a_minute(lines: Lines) -> None:
    for number in range(5):
        logging.getLogger("kopf._cogs.clients.watching").error(f"Request attempt #{number} failed; will retry")
    assert len(lines()) == 1


def test_kopfs_line_for_a_retry_names_the_request_and_no_class(lines: Lines) -> None:
    words = "Request attempt #1/9 failed; will retry: GET https://a.test/apis/x -> ClientConnectorError(Key(host='a'))"
    logging.getLogger("kopf._cogs.clients.api").error(words)
    (line,) = lines()
    assert (line["level"], line["msg"]) == ("warning", "request of kopf failed")
    assert line["request"] == "GET https://a.test/apis/x"
    assert "Error" not in json.dumps(line)


def test_kopfs_end_is_no_error_because_it_is_started_again(lines: Lines) -> None:
    words = "Watcher for clusters.v1alpha1.clusterregistry.k8s.cisco.com@none has failed: 404 page not found"
    logging.getLogger("kopf._core.reactor.orchestration").error(words)
    logging.getLogger("kopf._core.reactor.running").error("Multidimensional multitasker has failed: 404 page not found")
    logging.getLogger("kopf._core.reactor.running").error("Root task has failed: 404 page not found")
    assert [line["level"] for line in lines()] == ["warning", "warning", "error"]


def test_asyncios_slow_callbacks_are_not_said_and_its_errors_are_cut(lines: Lines) -> None:
    logging.getLogger("asyncio").warning("Executing %r took %.3f seconds", "<Handle f('hunter2')>", 1.0)
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: <Task 'hunter2'>")
    assert [line["msg"] for line in lines()] == ["Task exception was never retrieved…"]


def test_an_exception_shows_files_and_functions_but_no_locals_and_no_source(lines: Lines) -> None:
    def breaks(password: str) -> None:
        raise ValueError(f"invalid literal for int() with base 10: '{password}'")

    try:
        breaks("hunter" + "2")
    except ValueError as error:
        logs.get_logger("x").exception("it broke", error=error, target="t")
    (line,) = lines()
    assert line["error"] == "ValueError: invalid literal for int() with base 10: '…'"
    assert "breaks" in line["traceback"][-1]
    assert "hunter2" not in json.dumps(line)


def test_our_own_exceptions_say_all_and_causes_are_followed() -> None:
    error = InvalidObject("spec.rules[0]", 'must be "a" {here}')
    assert describe(error) == 'InvalidObject: spec.rules[0]: must be "a" {here}'
    assert describe(OSError(111, "Connection refused")) == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert describe(KeyError("hunter2")) == "KeyError: '…'"


@pytest.mark.parametrize(
    "held", ["it's hunter2", "'hunter2\"", 'say "hunter2" it\'s', "'", "hunter2' or hunter2", "\n'hunter2"]
)
@pytest.mark.parametrize("words", ["it's {!r}", "no {!r} here", "'{}'", "don't '{}' of \"x\""])
def test_quotation_marks_within_what_is_quoted_let_nothing_out(words: str, held: str) -> None:
    assert "hunter2" not in describe(ValueError(words.format(held)))


def test_exception_groups_and_causes_are_taken_apart(lines: Lines) -> None:
    try:
        try:
            raise OSError(2, "inner")
        except OSError as error:
            raise ExceptionGroup("outer", [RuntimeError("part")]) from error
    except ExceptionGroup as group:
        logs.get_logger("x").exception("it broke", error=group)
    text = "\n".join(lines()[0]["traceback"])
    assert "  | RuntimeError: part" in text
    assert "FileNotFoundError: [Errno 2] inner" in text


def test_what_ends_a_thread_or_the_process_is_said_in_the_same_form(lines: Lines) -> None:
    def end() -> None:
        raise RuntimeError("bug")

    thread = threading.Thread(target=end, name="kopf")
    thread.start()
    thread.join()
    error = RuntimeError("bug")
    sys.excepthook(RuntimeError, error, None)
    first, second = lines()
    assert (first["logger"], first["thread"], first["error"]) == ("crash", "kopf", "RuntimeError: bug")
    assert second["error"] == "RuntimeError: bug"


def test_configuring_again_replaces_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(format="json", verbosity=0)
    logs.configure(format="console", verbosity=0)
    logs.get_logger("x").info("once")
    assert len(capsys.readouterr().err.splitlines()) == 1


LIBRARY = """
from registry_controller.report.logs import get_logger
log = get_logger("registry_controller.group.controller")
log.info("member engaged", member="b")
log.warning("objects cannot be read", member="b")
try:
    {}["a-key"]
except KeyError as error:
    log.exception("function has failed", error=error, function="reconcile")
"""


def test_a_program_that_sets_up_no_logging_sees_warnings_and_tracebacks() -> None:
    done = subprocess.run([sys.executable, "-c", LIBRARY], capture_output=True, text=True, check=True, timeout=60)
    first, second, *rest = done.stderr.splitlines()
    assert (done.stdout, first, second) == (
        "", "objects cannot be read member=b", "function has failed function=reconcile"
    )  # fmt: skip
    assert rest[0].startswith("Traceback")
    assert rest[-1] == "KeyError: 'a-key'"
