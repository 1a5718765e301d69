"""Commands on real clusters: `plan -o diff`, `suspend`, `resume`, `version`, and `explain` over contexts. S1."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from registry_controller import __version__
from tests.e2e.commands import merge_kubeconfigs
from tests.e2e.group import BIN, CONFIG_MAP, SECRET, Member, config_map, eventually, rule, secret, steadily

CANARY = "a-canary-that-must-not-sing"

pytestmark = pytest.mark.group(2, prefix="commands", canaries=(CANARY,))


def wanted(label: str) -> dict[str, Any]:
    """Write the entry of a rule; each test has a label of its own, because a deleted rule acts for a while."""
    return {"match": [{"labels": [{"matchLabels": {"sync": label}}]}]}


def ask(kubeconfig: Path, *args: str, stdin: str = "", code: int = 0) -> tuple[str, str]:
    """Run the command line; no output has the data of a Secret."""
    done = subprocess.run(
        [str(BIN / "registry-controller"), "--kubeconfig", str(kubeconfig), *args],
        input=stdin, capture_output=True, text=True, check=False, timeout=240,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )  # fmt: skip
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    for spelled in (CANARY, base64.b64encode(CANARY.encode()).decode()):
        assert spelled not in done.stdout + done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def merged(members: list[Member], tmp_path: Path) -> Path:
    return merge_kubeconfigs(members, at=tmp_path / "config")


def test_a_plan_shows_the_changed_fields_and_no_data_of_a_secret(members: list[Member]) -> None:
    first, second = members
    maps, secrets = rule("diff-maps", CONFIG_MAP, wanted("diff")), rule("diff-secrets", SECRET, wanted("diff"))
    labels = {"sync": "diff"}
    second.create(
        config_map("diff", {"color": "red"}, labels=labels), secret("diff", {"password": CANARY}, labels=labels)
    )
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [maps, secrets]})
    config = first.cluster.kubeconfig
    told, _ = eventually(
        lambda: (
            (found := ask(config, "plan", "-f", "-", "-o", "diff", stdin=text)) and "2 to create" in found[0] and found
        )
    )
    assert f"create ConfigMap default/diff, from cluster {second.name}, by rule diff-maps\n" in told
    assert '  + data.color: "red"\n' in told
    assert "  + data.password (value hidden)\n" in told

    first.apply(maps, secrets)
    eventually(lambda: first.find("secret", "diff") and first.find("cm", "diff"), what="both copies")
    for one in (maps, secrets):
        one["spec"]["rules"][0]["mutations"] = {"labels": {"add": {"team": "blue"}}}
    first.kubectl("annotate", "secret", "diff", f"note={CANARY}")
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [maps, secrets]})
    told, _ = ask(config, "plan", "-f", "-", "-o", "diff", stdin=text)
    assert "2 to update" in told
    assert told.count('  + metadata.labels.team: "blue"\n') == 2
    first.kubectl("annotate", "secret", "diff", "note-")
    first.kubectl("delete", "rsr", "diff-maps", "diff-secrets")


def test_a_rule_is_suspended_where_it_was_made_and_resumed(members: list[Member]) -> None:
    first, second = members
    config = first.cluster.kubeconfig
    first.apply(rule("pause", CONFIG_MAP, wanted("pause")))
    told, _ = ask(config, "suspend", "pause")
    assert told == "resourcesyncrule.clusterregistry.k8s.cisco.com/pause suspended\n"
    assert first.get("rsr", "pause")["spec"]["suspend"] is True
    eventually(lambda: first.condition("rsr", "pause", "Accepted").get("reason") == "Suspended")
    second.apply(config_map("paused", {"a": "1"}, labels={"sync": "pause"}))
    steadily(lambda: first.find("cm", "paused") is None, for_s=3)
    planned = rule("pause", CONFIG_MAP, wanted("pause"))
    assert "unchanged: it is suspended already" in ask(config, "suspend", "rsr/pause")[0]
    named = "resourcesyncrule.clusterregistry.k8s.cisco.com/pause\n"
    assert ask(config, "suspend", "pause", "-o", "name")[0] == named
    assert json.loads(ask(config, "suspend", "pause", "-o", "json")[0])["spec"]["suspend"] is True
    assert ask(config, "plan", "-f", "-", "-o", "name", stdin=json.dumps(planned))[0] == "configmap/paused\n"

    eventually(lambda: (second.find("rsr", "pause") or {}).get("spec", {}).get("suspend"), what="the rule is synced")
    _, error = ask(second.cluster.kubeconfig, "resume", "pause", code=1)
    assert f"it belongs to the cluster with the ID {first.id}" in error
    assert "Usage" not in error
    assert ask(config, "resume", "pause")[0].endswith("/pause resumed\n")
    assert "suspend" not in first.get("rsr", "pause")["spec"]
    eventually(lambda: first.find("cm", "paused"), what="the copy")
    assert "there is no such rule" in ask(config, "suspend", "none", code=1)[1]
    assert (
        "the daemon makes this rule"
        in ask(config, "suspend", "cluster-registry-core-resource-clusters-sink", code=1)[1]
    )
    first.kubectl("delete", "rsr", "pause")


def test_versions_are_those_of_the_daemons(members: list[Member], merged: Path) -> None:
    first, second = members
    contexts = [word for member in members for word in ("--context", member.name)]
    found = eventually(
        lambda: (
            (told := json.loads(ask(merged, "version", *contexts, "-o", "json")[0]))
            and all(one["version"] for one in told["daemons"])
            and told
        ),
        what="every member has its version",
    )
    assert found["client"]["version"] == __version__
    # A cluster itself has a Lease, and the other one has a version on its Cluster.
    assert sorted((one["context"], one["cluster"], bool(one["daemon"])) for one in found["daemons"]) == sorted(
        (here.name, there.name, here is there) for here in (first, second) for there in (first, second)
    )
    assert {one["version"] for one in found["daemons"]} == {__version__}
    told, error = ask(merged, "version", "--context", first.name, "--context", "none", code=1)
    assert told.startswith(f"registry-controller {__version__}\nCONTEXT ")
    assert "Error: none: kubeconfig" in error


def test_an_object_is_explained_in_a_line_for_each_member(members: list[Member], merged: Path) -> None:
    first, second = members
    contexts = [word for member in members for word in ("--context", member.name)]
    second.apply(config_map("lines", {"a": "1"}, labels={"sync": "lines"}))
    first.apply(rule("lines", CONFIG_MAP, wanted("lines")))
    eventually(lambda: first.find("cm", "lines"), what="the copy")
    told, _ = ask(merged, "explain", "configmap/lines", "-n", "default", *contexts)
    heading, here, there = told.splitlines()
    assert heading.split() == ["CONTEXT", "MEMBER", "OWNER", "STATE", "SINCE", "WHY"]
    assert here.split() == [first.name, first.name, second.name, "in", "step"]
    assert there.split() == [second.name, second.name, second.name, "owned", "here"]

    ask(first.cluster.kubeconfig, "suspend", "lines")
    eventually(lambda: first.condition("rsr", "lines", "Accepted").get("reason") == "Suspended")
    second.apply(config_map("late", {"a": "1"}, labels={"sync": "lines"}))
    found = json.loads(ask(merged, "explain", "cm", "default/late", *contexts, "-o", "json")[0])
    late = found["members"][0]
    assert (late["state"], late["owner"]) == ("missing", second.name)
    assert late["since"] == second.get("cm", "late")["metadata"]["creationTimestamp"]
    assert "suspended" in late["why"]
    told, _ = ask(merged, "explain", "cm", "default/late", "--context", first.name, "--context", "none", code=1)
    assert "kubeconfig" in told.splitlines()[2]
    first.kubectl("delete", "rsr", "lines")


def test_an_archive_has_the_state_of_each_member_and_no_data_of_a_secret(
    members: list[Member], merged: Path, tmp_path: Path
) -> None:
    first, second = members
    contexts = [word for member in members for word in ("--context", member.name)]
    second.create(secret("registry-like", {"password": CANARY}, namespace="cluster-registry"))
    container = {"name": "c", "image": "i", "args": [f"--password={CANARY}"]}
    info = {"name": "of-another-program", "namespace": "cluster-registry"}
    second.create({"apiVersion": "v1", "kind": "Pod", "metadata": info, "spec": {"containers": [container]}})
    target = tmp_path / "report.tar.gz"
    # Without nodes, logs and metrics of Pods cannot be read through the API server: the archive may lack them.
    done = subprocess.run(
        [str(BIN / "registry-controller"), "--kubeconfig", str(merged), "gather", *contexts, "--file", str(target)],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.stdout == f"{target}\n", done.stderr
    with tarfile.open(target) as opened:
        files = {info.name: opened.extractfile(info).read().decode() for info in opened}  # type: ignore[union-attr]
    hidden = [CANARY, base64.b64encode(CANARY.encode()).decode()]
    for member in members:
        data = member.get("secret", member.name, "-n", "cluster-registry")["data"]
        hidden += [*data.values(), *(base64.b64decode(value).decode() for value in data.values())]
    assert not [name for name, text in files.items() for value in hidden if value in text]
    for member in (first, second):
        folder = f"cluster-registry/{member.name}"
        clusters = yaml.safe_load(files[f"{folder}/clusters.yaml"])
        assert {one["metadata"]["name"] for one in clusters} == {first.name, second.name}
        assert len(yaml.safe_load(files[f"{folder}/definitions.yaml"])) == 3
        assert "gitVersion" in files[f"{folder}/server.yaml"]
        secrets = yaml.safe_load(files[f"{folder}/secrets.yaml"])
        assert {"metadata", "type", "keys"} == set(secrets[0])
    second.kubectl("delete", "secret/registry-like", "pod/of-another-program", "-n", "cluster-registry", "--now")


def test_events_of_the_registrys_objects_are_shown_and_watched(members: list[Member], merged: Path) -> None:
    first, _ = members
    config = json.loads(merged.read_text())
    config["clusters"].append({"name": "dead", "cluster": {"server": "https://127.0.0.1:1"}})
    config["contexts"].append({"name": "dead", "context": {"cluster": "dead", "user": first.name}})
    merged.write_text(json.dumps(config))
    told = eventually(
        lambda: (text := ask(merged, "events", "cluster", "--context", first.name)[0]) and "cluster/" in text and text
    )
    assert told.splitlines()[0].split() == ["LAST", "SEEN", "CONTEXT", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    command = subprocess.Popen(
        [
            str(BIN / "registry-controller"), "--kubeconfig", str(merged), "events", "--watch", "rsr/watched",
            "--context", first.name, "--context", "dead",
        ],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    with command as watching:
        first.apply(rule("watched", CONFIG_MAP, {"match": [{"objectKey": {"name": "none"}}]}))
        info = first.get("rsr", "watched")["metadata"]
        about = {"apiVersion": "clusterregistry.k8s.cisco.com/v1alpha1", "kind": "ResourceSyncRule", "name": "watched"}
        first.create(
            {
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "watched.1", "namespace": "default"},
                "involvedObject": {**about, "uid": info["uid"]}, "type": "Warning", "reason": "Tested",
                "message": "a message", "lastTimestamp": "2026-01-01T00:00:00Z",
            }
        )  # fmt: skip
        assert watching.stdout is not None
        line = next(line for line in watching.stdout if "Tested" in line)
        assert line.split("   ")[1:] == [first.name, "Warning", "Tested", "resourcesyncrule/watched", "a message\n"]
        watching.kill()
    assert "Error: dead: " in ask(merged, "events", "--watch", "--context", "dead", code=1)[1]
    assert "has no context nowhere" in ask(merged, "events", "--watch", "--context", "nowhere", code=2)[1]
    named, wide = (ask(first.cluster.kubeconfig, "events", "rsr/watched", "-o", form)[0] for form in ("name", "wide"))
    assert "event/watched.1" in named.splitlines()
    assert wide.splitlines()[0].endswith("MESSAGE")
    assert "FIRST SEEN" in wide.splitlines()[0]
    first.kubectl("delete", "rsr", "watched")
    first.kubectl("delete", "event", "watched.1", "-n", "default")
