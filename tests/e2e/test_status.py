"""`status` on real control planes: all is well, or what is not, from one context and from several."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.controlplane.kubeconfig import write_kubeconfig
from registry_controller import __version__
from tests.e2e.commands import PROGRAM, Ended, contexts, run
from tests.e2e.group import CONFIG_MAP, Member, config_map, eventually, rule

pytestmark = pytest.mark.group(2, prefix="seen", everywhere={"share": "seen"})


@pytest.fixture(scope="module")
def kubeconfig(members: list[Member]) -> Path:
    path = members[0].cluster.directory.parent / "both.kubeconfig"
    write_kubeconfig(path, [member.cluster.entry for member in members])
    return path


def status(kubeconfig: Path, *arguments: str, of: tuple[str, ...] = ("seen-1", "seen-2")) -> Ended:
    return run(kubeconfig, "status", *contexts(of), *arguments)


def shown(kubeconfig: Path, *words: str) -> Ended:
    """Wait until a line begins with these words: a Lease follows its daemon's state within seconds."""

    def look() -> Ended | None:
        done = status(kubeconfig)
        return done if any(line.split()[: len(words)] == [*words] for line in done.stdout.splitlines()) else None

    found = eventually(look, what=f"a line of {words}")
    assert found is not None
    return found


def asleep(name: str) -> dict[str, Any]:
    """Return a rule that is suspended."""
    return rule(name, CONFIG_MAP, {"match": [{"objectKey": {"name": "none"}}]}, suspend=True)


def document(done: Ended) -> dict[str, Any]:
    return dict(json.loads(done.stdout))


def test_a_group_that_is_well_is_shown_members_by_members(members: list[Member], kubeconfig: Path) -> None:
    members[1].apply(config_map("seen", {"a": "1"}, labels={"share": "seen"}))
    eventually(lambda: members[0].find("configmap", "seen"), what="the copy")
    shown(kubeconfig, "everywhere", "seen-2", "1")
    done = status(kubeconfig, "--wait", "3m")
    assert done.code == 0, done
    assert "all is well" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["MEMBER", "DAEMON", "CRDS", "seen-1", "seen-2"]
    assert lines[2].split()[0] == "seen-1"
    assert " local " in lines[2]
    assert "Ready" in lines[2]
    found = document(status(kubeconfig, "--wait", "1m", "-o", "json"))
    assert found["isWell"] is True
    assert [one["name"] for one in found["members"]] == ["seen-1", "seen-2"]
    assert all(one["daemon"]["version"] for one in found["members"])
    assert yaml.safe_load(status(kubeconfig, "-o", "yaml").stdout)["isWell"] is True
    names = status(kubeconfig, "-o", "name").stdout.splitlines()
    assert names == [f"cluster.clusterregistry.k8s.cisco.com/{member.name}" for member in members]


def test_one_context_shows_the_group_as_this_member_finds_it(members: list[Member], kubeconfig: Path) -> None:
    done = status(kubeconfig, "--wait", "1m", of=("seen-1",))
    assert done.code == 0, done
    assert "members, as seen-1 sees them" in done.stdout
    (line,) = (words for words in map(str.split, done.stdout.splitlines()) if words[:2] == ["seen-2", "Ready"])
    assert __version__ in line
    found = {of: document(status(kubeconfig, "-o", "json", of=(of,)))["members"][0] for of in ("seen-1", "seen-2")}
    (peer,) = (one for one in found["seen-1"]["peers"] if one["name"] == "seen-2")
    assert peer["daemonVersion"] == __version__
    assert peer["definitionsSince"] == found["seen-2"]["definitionsSince"] is not None


def test_the_wide_form_has_the_last_contacts(members: list[Member], kubeconfig: Path) -> None:
    status(kubeconfig, "--wait", "1m")
    (line,) = (one for one in status(kubeconfig, "-o", "wide").stdout.splitlines() if one.startswith("seen-1  "))
    assert re.search(r"  local  .*Ready .*, contact \d+[smh] ago$", line)


def test_a_rule_that_is_not_in_step_is_shown_with_its_reason(members: list[Member], kubeconfig: Path) -> None:
    members[0].apply(rule("lacking", {"version": "v1", "kind": "Endpoints"}))
    try:
        eventually(lambda: members[0].condition("rsr", "lacking", "Synced").get("status") == "False")
        done = shown(kubeconfig, "seen-1", "lacking")
        assert done.code == 1
        assert "rules that are not in step" in done.stdout
        assert "rule lacking" not in done.stderr  # the table has it in full
    finally:
        members[0].kubectl("delete", "rsr", "lacking")


def test_a_member_that_is_down_is_shown_and_waited_for(members: list[Member], kubeconfig: Path) -> None:
    server = members[1].cluster.apiserver
    server.kill()
    try:
        eventually(
            lambda: (
                re.search(r"^seen-2 +Failed ", (found := status(kubeconfig, of=("seen-1",))).stdout, re.M)
                and found.code
            ),
            what="seen-1 notices",
        )
        both = status(kubeconfig)
        assert both.code == 1
        assert "context seen-2: " in both.stderr
        assert "cannot be read" in both.stdout
        assert "seen-1: seen-2 is Failed: " in both.stderr
    finally:
        server.start()
        server.wait_ready(90)
    done = status(kubeconfig, "--wait", "4m")
    assert done.code == 0, done


def test_a_watch_shows_the_status_again_when_it_changes(members: list[Member], kubeconfig: Path) -> None:
    names = [member.name for member in members]
    command = subprocess.Popen(
        [str(PROGRAM), "--kubeconfig", str(kubeconfig), "status", "--watch", *contexts(names)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    with command as watching, contextlib.ExitStack() as stack:
        stack.callback(watching.kill)
        assert watching.stdout is not None
        lines = (line.split() for line in watching.stdout)
        assert ["seen-2", __version__] in (line[:2] for line in lines)
        members[0].apply(asleep("watched-1"))
        assert ["seen-1", "watched-1", "Suspended"] in (line[:3] for line in lines)
        members[0].kubectl("patch", "rsr", "watched-1", "--type", "merge", "-p", '{"spec": {"suspend": null}}')
        eventually(lambda: "Suspended" not in status(kubeconfig).stdout, what="the rule acts in both members")
        members[0].apply(asleep("watched-2"))
        latest: list[list[str]] = []
        for line in lines:
            if line[:2] == ["members", "(lines)"]:  # the title of the first table
                latest.clear()
            latest.append(line[:3])
            if line[:3] == ["seen-1", "watched-2", "Suspended"]:
                break
        assert ["seen-1", "watched-1", "Suspended"] not in latest
        assert ["seen-2", __version__] in (line[:2] for line in latest)
    members[0].kubectl("delete", "rsr", "watched-1", "watched-2")


def test_a_watch_does_not_wait(members: list[Member], kubeconfig: Path) -> None:
    assert status(kubeconfig, "--watch", "--wait", "1m").code == 2
