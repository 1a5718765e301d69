"""`hack/scrape`: lets a real Prometheus scrape a real group, and asks it for each panel and each alert of the chart."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.e2e.group import Member

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ROOT / "deploy" / "helm" / "cluster-registry" / "files"
_SCRAPED_EVERY_S: Final = 2
_VARIABLES: Final = {"$namespace": ".*", "$__rate_interval": f"{10 * _SCRAPED_EVERY_S}s"}
"""The variables of Grafana in the queries of the dashboard."""
_COPIES: Final = 120
"""The copies of one owner; the limit halts when more than half of them are to go at once."""


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    made = argparse.ArgumentParser(prog="hack/scrape", description=__doc__)
    made.add_argument("--minutes", type=float, default=10.0, help="time for all queries to return data (10)")
    return made


def main(options: argparse.Namespace) -> int:
    """Run the group and Prometheus; return 1 when a query has no data, or an alert has an error."""
    from hack.controlplane import BuildError, ensure_binaries
    from tests.e2e.group import joined_group

    try:
        programs = ensure_binaries(("prometheus",))
    except BuildError as error:
        print(f"hack/scrape: {error}", file=sys.stderr)
        return 1
    values = ("controller.readerTokenExpirationSeconds=3600",)
    with joined_group(3, prefix="scrape", values=values) as members:
        targets = {member.name: urllib.parse.urlsplit(member.daemon.metrics_url).netloc for member in members}
        with _prometheus(programs["prometheus"], targets) as server:
            silent = _ask_all(server, members, until=time.monotonic() + 60 * options.minutes)
            wrong = _unwell_alerts(server)
    for name, query in silent:
        print(f"NO DATA: {name}: {query}")
    for words in wrong:
        print(f"WRONG: {words}")
    print("each panel has data, and each alert is evaluated" if not silent and not wrong else "see above")
    return 1 if silent or wrong else 0


def panel_queries() -> list[tuple[str, str]]:
    """Return the title and the query of each target of a panel, with the variables of Grafana replaced."""
    dashboard = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
    found = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in _VARIABLES.items():
                query = query.replace(name, value)
            found.append((panel["title"], query))
    return found


@contextlib.contextmanager
def _prometheus(program: Path, targets: dict[str, str]) -> Iterator[str]:
    """Run Prometheus with the alerts of the chart; yield its address. It ends with this program, also a killed one."""
    from hack.controlplane.guardian import Guardian
    from hack.controlplane.ports import Port
    from hack.controlplane.process import Process

    guardian, port = Guardian(), Port()
    server = f"127.0.0.1:{port.number}"
    labels = [
        {"targets": [target], "labels": {"namespace": "cluster-registry", "cluster": name}}
        for name, target in targets.items()
    ]
    times = {"scrape_interval": f"{_SCRAPED_EVERY_S}s", "evaluation_interval": f"{_SCRAPED_EVERY_S}s"}
    jobs = [{"job_name": "cluster-registry", "static_configs": labels}]
    config = {"global": times, "rule_files": [str(FILES / "alerts.yaml")], "scrape_configs": jobs}
    try:
        folder = Path(tempfile.mkdtemp(prefix="prometheus."))
        guardian.own(folder)
        (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        running = Process(
            "prometheus",
            argv=[
                str(program),
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={server}",
            ],
            env=os.environ,
            log=folder / "log",
            guardian=guardian,
            ready=lambda: _missing(server),
        )
        running.start()
        running.wait_ready()
        yield server
    finally:
        guardian.close()
        port.release()


def _missing(server: str) -> str | None:
    """Return why Prometheus does not serve; None when it does."""
    try:
        with urllib.request.urlopen(f"http://{server}/-/ready", timeout=5):
            return None
    except OSError as error:
        return str(error)


def _ask_all(server: str, members: Sequence[Member], *, until: float) -> list[tuple[str, str]]:
    """Query each panel while the group works, until each has returned data; return the queries without data."""
    _prepare(members)
    silent = panel_queries()
    for number in itertools.count(1):
        _work(members, number)
        silent = [(name, query) for name, query in silent if not _ask(server, query)]
        print(f"{len(silent)} queries without data", file=sys.stderr, flush=True)
        if not silent or time.monotonic() > until:
            return silent
        if number == 3:
            _halt_deletions(members[0])
        time.sleep(_SCRAPED_EVERY_S)
    raise AssertionError("the loop has no end")


def _prepare(members: Sequence[Member]) -> None:
    """Apply a rule that works, one with many copies, and one for a kind that no member lets its peers read."""
    from tests.e2e.group import config_map, rule

    for name in ("work", "many"):
        _apply_rule(members[0], name, label=name)
    members[0].apply(rule("unread", {"group": "apps", "version": "v1", "kind": "Deployment"}))
    many = (config_map(f"many-{number}", {"n": "0"}, labels={"scrape": "many"}) for number in range(_COPIES))
    members[1].apply(*many)


def _work(members: Sequence[Member], number: int) -> None:
    """Change one object, and make and delete another one."""
    from tests.e2e.group import config_map

    owner, born = members[1], config_map(f"born-{number}", {"n": "0"}, labels={"scrape": "work"})
    owner.apply(config_map("changes", {"n": str(number)}, labels={"scrape": "work"}), born)
    owner.kubectl("-n", "default", "delete", "configmap", f"born-{number - 1}", "--ignore-not-found")


def _halt_deletions(home: Member) -> None:
    """Edit the rule so that it matches none of its many sources any more: the limit keeps their copies."""
    _apply_rule(home, "many", label="nothing")


def _apply_rule(home: Member, name: str, *, label: str) -> None:
    """Apply a rule with the policy Delete for the ConfigMaps whose label `scrape` has this value."""
    from tests.e2e.group import CONFIG_MAP, rule

    match = {"match": [{"labels": [{"matchLabels": {"scrape": label}}]}]}
    home.apply(rule(name, CONFIG_MAP, match, deletionPolicy="Delete"))


def _ask(server: str, query: str) -> list[Any]:
    """Return the series of a query at this moment; stop the program where Prometheus refuses the query."""
    url = f"http://{server}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"hack/scrape: {query}: {error.read().decode(errors='replace')}")
    return [series for series in found if series["value"][1] != "NaN"]


def _unwell_alerts(server: str) -> list[str]:
    """Return what Prometheus reports against the alerts of the chart."""
    with urllib.request.urlopen(f"http://{server}/api/v1/rules", timeout=30) as answer:
        rules = [rule for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]
    if not rules:
        return ["Prometheus has loaded no alert"]
    return [
        f"{rule['name']}: {rule['health']}: {rule.get('lastError', '')}" for rule in rules if rule["health"] != "ok"
    ]


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
