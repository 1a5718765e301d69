"""The observer of the faults sees: histories that are as they must be, and the same with one thing in them that must
not be.
"""

from __future__ import annotations

import ast
import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.chaos import diary, history, laws, observer
from tests.chaos.history import DAEMON, KUBERNETES, PEOPLE, READER, Heard, History, Place, State, Written
from tests.chaos.making import OWNER
from tests.chaos.recorder import Recorder, Watched

FOLDER = Path(history.__file__).parent
IDS = {"a": "id-a", "b": "id-b", "c": "id-c"}
CANARY = "canary-0f8a"


def _rule(*, text: str = "", label: str = "yes") -> dict[str, Any]:
    overrides = [{"type": "replace", "path": "/data/text?", "value": text}] if text else []
    entry = {"match": [{"labels": [{"matchLabels": {"sync": label}}]}], "mutations": {"overrides": overrides}}
    spec = {"groupVersionKind": {"version": "v1", "kind": "ConfigMap"}, "rules": [entry]}
    return {"kind": "ResourceSyncRule", "metadata": {"name": "r"}, "spec": spec}


def _object(number: int, *, owner: str = "", label: str = "yes", **more: Any) -> dict[str, Any]:
    info: dict[str, Any] = {"name": "x", "namespace": "default", "labels": {"sync": label}}
    if owner:
        info["labels"] |= {OWNER: owner}
        info["annotations"] = {OWNER: owner}
    return {"kind": "ConfigMap", "metadata": info, "data": {"n": str(number)}, **more}


def _held(number: int, **more: Any) -> dict[str, Any]:
    """A copy that was deleted, and that a finalizer holds."""
    found = _object(number, owner="id-b", **more)
    found["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
    return found


def _history(*deeds: tuple[Any, ...], rule: dict[str, Any] | None = None, told: int = 0) -> History:
    """Write a history down: (seconds, cluster, who, what) with what a number (a state), None (deleted) or an object."""
    found = History(ids=dict(IDS))
    for cluster in IDS:
        place = Place(cluster, "ResourceSyncRule", "", "r")
        found.states[place] = [State(place, 0.0, rule or _rule(), PEOPLE, 0.0)]
    for revision, (at, cluster, who, what) in enumerate(deeds):
        if isinstance(what, dict) and what["kind"] == "ResourceSyncRule":
            place = Place(cluster, "ResourceSyncRule", "", "r")
        else:
            place = Place(cluster, "ConfigMap", "default", "x")
        manifest = _object(what, owner="id-b" if who == DAEMON else "") if isinstance(what, int) else what
        found.states.setdefault(place, []).append(State(place, at, manifest, who, at - 0.01, 0, revision))
        found.written[place] = found.written.get(place, 0) + (who == DAEMON)
    place = Place("a", "ConfigMap", "default", "x")
    found.written[place] = found.written.get(place, 0) + told
    return found


MADE = (10.0, "b", PEOPLE, 1)
COPIED = (11.0, "a", DAEMON, 1)
TEXTED = {**_object(1, owner="id-b"), "data": {"n": "1", "text": "t"}}
HONEST = {
    "a copy follows": [MADE, COPIED, (20.0, "b", PEOPLE, 2), (21.0, "a", DAEMON, 2)],
    "a state is left out": [MADE, COPIED, (20.0, "b", PEOPLE, 2), (21.0, "b", PEOPLE, 3), (22.0, "a", DAEMON, 3)],
    "a copy goes with its source": [MADE, COPIED, (20.0, "b", PEOPLE, None), (21.0, "a", DAEMON, None)],
    "a copy is put back": [MADE, COPIED, (20.0, "a", PEOPLE, _object(9, owner="id-b")), (21.0, "a", DAEMON, 1)],
    "a copy is made again": [MADE, COPIED, (20.0, "a", PEOPLE, None), (21.0, "a", DAEMON, 1)],
    "what landed late is taken back": [
        MADE, COPIED, (20.0, "b", PEOPLE, 2), (21.0, "b", PEOPLE, None), (21.5, "a", DAEMON, None),
        (22.0, "a", DAEMON, 2), (24.0, "a", DAEMON, None),
    ],
    "a copy goes with what its rule matches": [
        MADE, COPIED, (20.0, "a", PEOPLE, _rule(label="no")), (21.0, "a", DAEMON, None),
    ],
    "a copy goes when its source matches no more": [
        MADE, COPIED, (20.0, "b", PEOPLE, _object(2, label="no")), (21.0, "a", DAEMON, None),
    ],
    "a rule is changed": [
        MADE, COPIED, (20.0, "a", PEOPLE, _rule(text="t")),
        (21.0, "a", DAEMON, TEXTED),
    ],
    "a copy goes with what its rule matched when an older write landed": [
        MADE, (20.0, "a", PEOPLE, _rule(label="no")), (20.1, "a", PEOPLE, _rule(text="t")), (20.2, "a", DAEMON, 1),
        (20.3, "a", DAEMON, None), (20.4, "a", DAEMON, TEXTED),
    ],
    "a copy goes with its source that came again when an older write landed": [
        MADE, (20.0, "b", PEOPLE, None), (20.1, "b", PEOPLE, 2), (20.2, "a", DAEMON, 1), (20.3, "a", DAEMON, None),
        (20.4, "a", DAEMON, 2),
    ],
    "a native object is its people's": [(10.0, "a", PEOPLE, 1), (11.0, "a", PEOPLE, 2), (12.0, "a", PEOPLE, None)],
    "a copy that cannot be changed is made again": [
        (10.0, "b", PEOPLE, 1), (11.0, "a", DAEMON, 1), (12.0, "a", PEOPLE, _object(1, owner="id-b", immutable=True)),
        (13.0, "a", DAEMON, None), (13.1, "a", DAEMON, 1),
    ],
    "a copy that cannot be changed is made again when nobody holds it any more": [
        MADE, COPIED, (12.0, "a", PEOPLE, _object(9, owner="id-b", immutable=True)),
        (13.0, "a", DAEMON, _held(9, immutable=True)), (500.0, "a", PEOPLE, None), (501.0, "a", DAEMON, 1),
    ],
    "a copy that is held is deleted with its source": [
        MADE, COPIED, (20.0, "b", PEOPLE, None), (21.0, "a", DAEMON, _held(1)), (500.0, "a", PEOPLE, None),
    ],
}  # fmt: skip
DOCTORED = {
    "a value that nobody had": ("order", [MADE, (11.0, "a", DAEMON, 7)]),
    "a value before its owner had it": ("order", [(9.0, "a", DAEMON, 1), MADE, COPIED]),
    "a value that goes back": (
        "order", [MADE, COPIED, (20.0, "b", PEOPLE, 2), (21.0, "a", DAEMON, 2), (22.0, "a", DAEMON, 1)],
    ),
    "a value that returns after its source went, and stays": (
        "order", [MADE, COPIED, (20.0, "b", PEOPLE, None), (21.0, "a", DAEMON, None), (22.0, "b", PEOPLE, 2),
                  (23.0, "a", DAEMON, 2), (24.0, "a", DAEMON, 1)],
    ),
    "a value of an intermediary": (
        "order", [(10.0, "b", PEOPLE, _object(1, owner="id-c")), (11.0, "a", DAEMON, 1)],
    ),
    "a value that no rule makes": (
        "order", [(10.0, "b", PEOPLE, _object(1, label="no")),
                  (11.0, "a", DAEMON, _object(1, owner="id-b", label="no"))],
    ),
    "a value without an owner": ("order", [MADE, (11.0, "a", DAEMON, _object(1))]),
    "a value of a rule of long ago": (
        "order", [MADE, (12.0, "a", PEOPLE, _rule(text="t")), (500.0, "a", DAEMON, 1)],
    ),
    "a label that is left out": (
        "order", [MADE, (11.0, "a", DAEMON, {**_object(1, owner="id-b"), "metadata": {
            "name": "x", "namespace": "default", "annotations": {OWNER: "id-b"}}})],
    ),
    "a copy that goes while its owner has it": ("deletion", [MADE, COPIED, (20.0, "a", DAEMON, None)]),
    "a copy that goes soon after its source came": (
        "deletion", [MADE, (10.5, "a", DAEMON, 1), (12.0, "a", DAEMON, None)],
    ),
    "a copy that goes for what its last write knew already": (
        "deletion", [MADE, (20.0, "a", PEOPLE, _rule(label="no")), (20.1, "a", PEOPLE, _rule(text="t")),
                     (20.2, "a", DAEMON, TEXTED), (20.3, "a", DAEMON, None)],
    ),
    "a copy that goes for a source of before its last write": (
        "deletion", [MADE, (20.0, "b", PEOPLE, None), (20.1, "b", PEOPLE, 2), (20.2, "a", DAEMON, 2),
                     (20.3, "a", DAEMON, None)],
    ),
    "a copy that is held, and deleted while its owner has it": (
        "deletion", [MADE, COPIED, (20.0, "a", DAEMON, _held(1))],
    ),
    "a native object that is changed": ("native", [MADE, (10.5, "a", PEOPLE, 5), COPIED]),
    "a native object that is deleted": ("native", [(10.5, "a", PEOPLE, 5), (11.0, "a", DAEMON, None)]),
}  # fmt: skip


@pytest.mark.parametrize("deeds", HONEST.values(), ids=HONEST)
def test_what_may_happen_breaks_no_law(deeds: list[tuple[Any, ...]]) -> None:
    verdict = laws.judge(_history(*deeds))
    assert [str(one) for one in verdict.violations] == []
    assert sum(verdict.checked.values()) > 0


@pytest.mark.parametrize(("law", "deeds"), DOCTORED.values(), ids=DOCTORED)
def test_what_may_not_happen_is_seen_and_cited(law: str, deeds: list[tuple[Any, ...]]) -> None:
    verdict = laws.judge(_history(*deeds))
    assert law in {one.law for one in verdict.violations}
    assert all(one.lines for one in verdict.violations)


@pytest.mark.parametrize("name", ["a", "b"])
def test_copies_go_where_their_owner_or_their_holder_leaves(name: str) -> None:
    history = _history(MADE, COPIED, (20.0, "a", DAEMON, None), (30.0, "a", DAEMON, 1))
    assert "deletion" in {one.law for one in laws.judge(history).violations}
    history.absent[name] = [(19.0, 25.0)]
    assert not laws.judge(history).violations
    history.absent[name] = [(25.0, 29.0)]
    assert "deletion" in {one.law for one in laws.judge(history).violations}


def test_writes_without_a_cause_are_seen() -> None:
    """Two states, two rules' worth of writes may be; a third that nobody caused may not."""
    assert not laws.judge(_history(MADE, COPIED, told=1)).violations
    assert {one.law for one in laws.judge(_history(MADE, COPIED, told=5)).violations} == {"number"}


def _line(verb: str, user: str, resource: str, **more: Any) -> dict[str, Any]:
    return {
        "verb": verb, "user": {"username": user}, "requestURI": f"/api/v1/{resource}", "responseStatus": {"code": 200},
        "objectRef": {"resource": resource, "namespace": "default", "name": "x"},
        "requestReceivedTimestamp": "2026-01-01T00:00:01.000000Z", "stageTimestamp": "2026-01-01T00:00:01.500000Z",
        **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("verb", "user", "resource", "is_seen"),
    [
        ("watch", READER, "secrets", False),
        ("get", READER, "configmaps", False),
        ("create", READER, "selfsubjectaccessreviews", True),
        ("patch", READER, "configmaps", True),
        ("update", history.ACCOUNT, "configmaps", False),
        ("delete", history.ACCOUNT, "pods", True),
        ("create", "system:serviceaccount:default:default", "configmaps", True),
        ("create", "kubernetes-admin", "pods", False),
        ("update", "system:kube-controller-manager", "pods", False),
    ],
)
def test_what_peers_and_strangers_do_is_seen(verb: str, user: str, resource: str, is_seen: bool) -> None:
    verdict = laws.Verdict()
    observer.check_callers(verdict, "a", [_line(verb, user, resource)])
    assert bool(verdict.violations) is is_seen


@pytest.mark.parametrize("text", [CANARY, base64.b64encode(CANARY.encode()).decode(), f'{{"data":"{CANARY}"}}'])
def test_a_planted_secret_is_seen_and_not_cited(text: str) -> None:
    verdict = laws.Verdict()
    observer.check_secrecy(verdict, [CANARY], "a log", f"before\nhere: {text} after")
    assert [one.law for one in verdict.violations] == ["secrecy"]
    assert CANARY not in str(verdict.violations[0])
    observer.check_secrecy(clean := laws.Verdict(), [CANARY], "a log", "nothing")
    assert not clean.violations


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([_object(1, owner="id-b")], []),
        ([], ["a has no ConfigMap default x"]),
        ([_object(2, owner="id-b")], ["a: ConfigMap default x: data is not as it should be"]),
        ([_object(5)], []),
        ([_object(1, owner="id-c")], ["a: ConfigMap default x: label"]),
    ],
    ids=["as it must be", "missing", "older", "a native one keeps its place", "of another owner"],
)
def test_the_end_must_be_what_rules_make_of_the_owners_state(held: list[dict[str, Any]], said: list[str]) -> None:
    source = _object(1)
    source["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    wrong = observer.differences({"a": [_rule(), *held], "b": [source]}, IDS)
    assert len(wrong) == len(said)
    assert all(found.startswith(wanted) for found, wanted in zip(wrong, said, strict=True))


def test_what_is_left_over_in_the_end_is_seen() -> None:
    assert observer.differences({"a": [_rule(), _object(1, owner="id-b")], "b": []}, IDS) == [
        "a: ConfigMap default x is left over"
    ]


def _stored(revision: int, **more: Any) -> dict[str, Any]:
    manifest = _object(revision, **more)
    manifest["metadata"] |= {"resourceVersion": str(revision), "uid": "u"}
    return manifest


def test_the_audit_log_and_the_watch_make_one_history() -> None:
    """Who wrote is the audit log's; what no line tells, the watch adds; a deletion belongs to who asked for it."""
    place = Place("a", "ConfigMap", "default", "x")
    lines = [
        _line("create", "kubernetes-admin", "configmaps", responseObject=_stored(5)),
        _line("update", history.ACCOUNT, "configmaps", responseObject=_stored(7)),
        _line("delete", history.ACCOUNT, "configmaps", responseObject={"kind": "Status", "details": {"uid": "u"}}),
        _line("update", history.ACCOUNT, "configmaps", responseStatus={"code": 409}),
    ]  # fmt: skip
    obj = [Heard(place, 1.0, _stored(number), False, number, 0) for number in (5, 6, 7)]
    obj.append(Heard(place, 2.0, _stored(7), True, 8, 0))
    states = history.merge(history.read_writes("a", lines), obj, ids=IDS, restored={}).states[place]
    assert [(state.revision, state.who, state.object is None) for state in states] == [
        (5, PEOPLE, False), (6, "unknown", False), (7, DAEMON, False), (8, DAEMON, True),
    ]  # fmt: skip


def test_what_was_put_back_comes_after_what_it_replaced() -> None:
    place = Place("a", "ConfigMap", "default", "x")
    written = Written(place, 10.0, 9.9, PEOPLE, _stored(9), "u")
    obj = [Heard(place, 20.0, _stored(4), False, 4, 1)]
    states = history.merge([written], obj, ids=IDS, restored={"a": [15.0]}).states[place]
    assert [state.revision for state in states] == [9, 4]


def _client(folder: Path) -> list[Path]:
    """Write down with what an administrator speaks to an API server: its CA, a certificate and the key."""
    authority = trustme.CA()
    files = [folder / name for name in ("ca", "certificate", "key")]
    authority.cert_pem.write_to_path(files[0])
    admin = authority.issue_cert("admin.test")
    admin.cert_chain_pems[0].write_to_path(files[1])
    admin.private_key_pem.write_to_path(files[2])
    return files


def test_a_kind_that_is_heard_later_is_of_the_time_after_what_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the audit log's lines are: what has the revision of another time is another state."""
    files = _client(tmp_path)
    monkeypatch.setattr(Recorder, "start", lambda recorder: recorder.current.set())
    seer = observer.Observer(kinds=("Secret",))
    seer.watch(Watched("a", 0, *files, tmp_path, tmp_path), cluster_id="id-a")
    seer.put_back("a")
    seer.watch_kind("Widget", of={"a"})
    assert {recorder.epoch for recorder in seer.recorders.values()} == {1}


def test_what_a_clock_said_that_lied_is_put_right(tmp_path: Path) -> None:
    """By where it stands in the log: minutes later the same words may be the truth."""
    log, told, wanted = tmp_path / "audit.log", 0.0, []
    watched = Watched("a", 0, tmp_path, tmp_path, tmp_path, log, tmp_path)
    seer = observer.Observer(watched=[watched], ids=IDS)
    log.touch()
    base = time.time()
    with pytest.MonkeyPatch.context() as patch:
        for second in range(40):
            now = base + second
            patch.setattr(time, "time", lambda now=now: now)
            if second % 8 == 5:
                told = {5: 2400.0, 13: -30.0, 21: 10.0, 29: 86400.0, 37: 0.0}[second]
                seer.lied("a", told)
            began = now + told - (0.4 if second % 8 != 5 else 0)
            stamps = {"requestReceivedTimestamp": history.stamp(began), "stageTimestamp": history.stamp(now + told)}
            line = _line("update", "kubernetes-admin", "configmaps", responseObject=_stored(second + 1)) | stamps
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            wanted.append(now)
    states = seer.history().states[Place("a", "ConfigMap", "default", "x")]
    assert [state.at for state in states] == pytest.approx(wanted, rel=0, abs=0.01)
    assert all(0 <= state.at - state.began < 0.5 for state in states)


def test_what_was_asked_for_before_a_lie_and_what_is_written_down_late_are_put_right() -> None:
    lies = [observer.Lie(0, 0.0, 0.0), observer.Lie(7, 100.0, 2400.0)]
    assert observer.righted(99.0, lies, number=1) == 99.0
    assert observer.righted(100.5 + 2400.0, lies, number=0) == 100.5


def test_who_wrote_is_read_off_an_object_where_the_audit_log_is_silent() -> None:
    def fields(*entries: tuple[str, str]) -> dict[str, Any]:
        return {"metadata": {"managedFields": [{"manager": name, "time": time} for name, time in entries]}}

    assert history.manager_of(fields(("kubectl", "1"), ("registry-controller", "2"))) == DAEMON
    assert history.manager_of(fields(("kubectl", "2"), ("registry-controller", "1"))) == PEOPLE
    assert history.manager_of(fields(("kubectl", "2"), ("registry-controller", "2"))) == "unknown"
    assert history.who_is("system:kube-controller-manager") == KUBERNETES


@pytest.mark.parametrize(
    ("line", "kills", "words"),
    [
        ("exit code 1; starting it again in 10 s", 0, "ended 1 times, and was killed 0 times"),
        ("exit code -9; starting it again in 10 s", 1, ""),
        ('{"level":"error","message":"x"}', 0, "d-1.log, line 1"),
        ("Traceback (most recent call last):", 0, "d-1.log, line 1"),
        ('{"level":"error","logger":"kopf.x"}', 0, ""),
        ('{"level":"info","message":"level error"}', 0, ""),
    ],
)
def test_what_a_daemon_ended_of_or_did_not_expect_is_seen_in_each_log(
    tmp_path: Path, line: str, kills: int, words: str
) -> None:
    for name in ("d-0.log", "d-1.log"):
        (tmp_path / name).write_text("Traceback: forgiven\n")
    found, verdict = diary.Diary(tmp_path), laws.Verdict()
    found.forgive()
    with (tmp_path / "d-1.log").open("a") as log:
        log.write(f"{line}\n")
    found.check(verdict, "a", kills=kills)
    assert [(one.law, one.words) for one in verdict.violations] == ([("daemon", words)] if words else [])


def test_a_planted_secret_in_a_state_that_is_over_is_seen_once(tmp_path: Path) -> None:
    files = _client(tmp_path)
    seer = observer.Observer((CANARY,), ids=dict(IDS))
    recorder = Recorder(Watched("a", 0, *files, tmp_path, tmp_path), "Cluster")
    seer.recorders["a", "Cluster"] = recorder
    place = Place("a", "Cluster", "", "b")
    for revision, message in enumerate(("well", f"refused {CANARY}", "well"), start=1):
        said = {"metadata": {"name": "b"}, "status": {"conditions": [{"message": message}]}}
        recorder.states.append(Heard(place, 1.0, said, False, revision, 0))
    recorder.states.append(
        Heard(place._replace(kind="Secret"), 1.0, {"metadata": {"name": "b"}, "data": {"x": CANARY}}, False, 4, 0)
    )
    found = [violation for _ in range(2) for violation in seer.judge({}).violations]
    assert [(one.law, one.where) for one in found] == [("secrecy", f"{place} @2")]


@pytest.mark.parametrize("room", ["history", "making", "laws", "membership", "recorder", "observer"])
def test_the_observer_shares_no_code_with_the_daemon(room: str) -> None:
    tree = ast.parse((FOLDER / f"{room}.py").read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    ours = {name for name in names if name and not name.startswith("tests.chaos.")}
    assert not any(name.startswith(("registry_controller", "tests", "hack")) for name in ours)
