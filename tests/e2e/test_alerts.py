"""The chart's alerts, judged by promtool: each fires on the metrics of its fault, and no other one does.

The series of the faults of a simulated group are what its daemon exports. Those of a token that
nobody renews are written here.
"""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from hack.controlplane import ensure_binaries
from registry_controller.api.meta import SYNC_DISABLED
from registry_controller.report.metrics import PREFIX
from registry_controller.status.gauges import Gauges
from tests.sim.cluster.clock import virtual_clocks
from tests.sim.cluster.group import CONFIG_MAP, SimGroup, config_map, rule, simulate
from tests.sim.cluster.member import Member
from tests.sim.cluster.refusal import Refusal
from tests.sim.cluster.transport import Fault as WireFault

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "helm" / "cluster-registry" / "files" / "alerts.yaml"
P = PREFIX
STEPS = 420  # minutes of metrics
FAST = {"0.5": "0+10x420", "60": "0+10x420", "+Inf": "0+10x420"}


def histogram(name: str, buckets: dict[str, str]) -> dict[str, str]:
    return {f'{P}{name}_bucket{{le="{bound}"}}': values for bound, values in buckets.items()}


HEALTHY: dict[str, str] = {
    f'{P}build_info{{version="1"}}': f"1x{STEPS}",
    f'{P}peer_up{{peer="b"}}': f"1x{STEPS}",
    f'{P}peer_last_contact_timestamp_seconds{{peer="b"}}': f"0+60x{STEPS}",
    f'{P}reflector_stalled{{peer="b",kind="Secret"}}': f"0x{STEPS}",
    f'{P}copies{{rule="r",state="in_step"}}': f"10x{STEPS}",
    **{
        f'{P}copies{{rule="r",state="{state}"}}': f"0x{STEPS}"
        for state in ("behind", "failing", "held", "conflicting", "skipped")
    },
    f'{P}held{{peer="b",reason="OwnerSilent"}}': f"2x{STEPS}",
    f"{P}reader_token_expiry_timestamp_seconds": " ".join(["+Inf"] * STEPS),
    f"{P}kopf_restarts_total": f"0x{STEPS}",
    **histogram("copy_delay_seconds", FAST),
    **histogram("workqueue_latency_seconds", FAST),
}
"""Series by their names, in the notation of promtool: one value a minute."""


class Fault(NamedTuple):
    """Series other than the healthy ones (None: missing), and the labels of the alerts that fire then, by alert."""

    series: dict[str, str | None]
    alerts: dict[str, dict[str, str]]


PEER, RULE = {"peer": "b"}, {"rule": "r"}
FAULTS = {
    # A token of seven hours that is not renewed; at the end 40 minutes are left.
    "ClusterRegistryReaderTokenExpires": Fault(
        {f"{P}reader_token_expiry_timestamp_seconds": f"25200x{STEPS}"}, {"ClusterRegistryReaderTokenExpires": {}}
    ),
}
FINE = {
    "nothing is wrong": {},
    "a peer was away for five minutes": {f'{P}peer_up{{peer="b"}}': "1x370 0x5 1x50"},
    "copies failed for ten minutes": {f'{P}copies{{rule="r",state="failing"}}': "0x360 3x10 0x60"},
    "a token of ten minutes is renewed in time": {
        f"{P}reader_token_expiry_timestamp_seconds": " ".join(f"{start * 60 + 600}x7" for start in range(0, 420, 8)),
    },
    "no changes, and so no delays": histogram("copy_delay_seconds", dict.fromkeys(FAST, f"5x{STEPS}")),
    "a cluster without peers and rules": {name: None for name in HEALTHY if "peer=" in name or "rule=" in name},
    "a daemon that just started, whose token is not known": {
        f"{P}reader_token_expiry_timestamp_seconds": " ".join(["NaN"] * STEPS)
    },
}
AT_MIN = 380


def promtool(*argv: str) -> str:
    done = subprocess.run(
        [str(ensure_binaries(["promtool"])["promtool"]), *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def severities() -> dict[str, str]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule["labels"]["severity"] for rule in group["rules"]}


def changed(series: dict[str, str | None]) -> dict[str, str]:
    """Return the healthy series with these instead of theirs."""
    return {name: values for name, values in (HEALTHY | series).items() if values is not None}


def case(series: dict[str, str], alerts: dict[str, dict[str, str]], *, at_min: int = AT_MIN) -> dict[str, Any]:
    """Write a test of promtool: these series, and at that minute exactly these alerts."""
    firing = []
    for alert, labels in alerts.items():
        shown = {"alertname": alert, "alertstate": "firing", "severity": severities()[alert], **labels}
        text = ",".join(f'{name}="{value}"' for name, value in shown.items())
        firing.append({"labels": f"ALERTS{{{text}}}", "value": 1})
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{at_min}m", "exp_samples": firing}],
    }


def run(tmp_path: Path, tests: list[dict[str, Any]]) -> None:
    file = tmp_path / "alerts_test.yaml"
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(document, width=10**6), encoding="utf-8")
    promtool("test", "rules", str(file))


# --- Recorded faults ---------------------------------------------------------------------------------------------

LABELS = {"sync": "yes"}
COPIES = 120
HEALTHY_MIN, FAULTY_MIN = 10, 40


async def join(group: SimGroup) -> None:
    """Form a group in which a has copies of many objects of b."""
    await group.join()
    many = rule("r", CONFIG_MAP, {"match": [{"labels": [{"matchLabels": LABELS}]}]})
    many["metadata"]["annotations"] = {SYNC_DISABLED: "true"}
    group["a"].create(many)
    for number in range(COPIES):
        group["b"].create(config_map(f"m-{number}", {"n": "1"}, labels=LABELS))
    await group.settle()


def lose_peer(group: SimGroup) -> None:
    group.wire("a", "b").set(WireFault.REFUSED)


def lose_right(group: SimGroup) -> None:
    """Withdraw the right to read a kind, and end the watches that began with it."""
    group.wire("a", "b").unallowed = {"configmaps"}
    group.wire("a", "b").cut()


def take_place(group: SimGroup) -> None:
    """Create an object of a's own where the copy of an object of b's belongs."""
    group["a"].create(config_map("taken", {"n": "mine"}))
    group["b"].create(config_map("taken", {"n": "1"}, labels=LABELS))


def delete_many(group: SimGroup) -> None:
    """Delete more than half of the objects."""
    for number in range(COPIES // 2 + 1):
        group["b"].delete("ConfigMap", f"m-{number}", namespace="default")


def refuse_write(group: SimGroup) -> None:
    """Let a's API server refuse the copy of a new object of b's."""
    group["a"].server.refused["ConfigMap new"] = Refusal(403, "Forbidden", "an admission webhook refuses it")
    group["b"].create(config_map("new", {"n": "1"}, labels=LABELS))


def lack_namespace(group: SimGroup) -> None:
    """Create an object in a namespace that a does not have."""
    group["b"].create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-there"}})
    group["b"].create(config_map("new", {"n": "1"}, namespace="only-there", labels=LABELS))


def kill_daemon(group: SimGroup) -> None:
    group["a"].kill()


def restart_kopf(group: SimGroup) -> None:
    daemon = group["a"].daemon
    assert daemon is not None
    for _ in range(7):
        daemon.hand_over_restart()


def slow_down(group: SimGroup) -> None:
    """Let a's API server take some seconds for each answer."""
    group.wire("a", "a").delay_s = (3.0, 3.0)


def change_many(group: SimGroup) -> None:
    """Change more objects than a slow API server writes in a minute."""
    for number in range(COPIES):
        held = group["b"].get("ConfigMap", f"m-{number}", namespace="default")
        group["b"].replace({**held, "data": {"n": str(int(held["data"]["n"]) + 1)}})


class Recorded(NamedTuple):
    """A fault of a simulated group, the labels of the alerts that fire then, by alert, and after how many minutes.

    Beside the fault something may happen in each minute.
    """

    inject: Callable[[SimGroup], None]
    alerts: dict[str, dict[str, str]]
    after_min: int = FAULTY_MIN
    each_minute: Callable[[SimGroup], None] | None = None


RECORDED = {
    "ClusterRegistryDaemonMissing": Recorded(kill_daemon, {"ClusterRegistryDaemonMissing": {}}),
    "ClusterRegistryPeerLost": Recorded(
        lose_peer, {"ClusterRegistryPeerUnreachable": PEER, "ClusterRegistryPeerLost": PEER}, after_min=6 * 60 + 10
    ),
    "ClusterRegistryCopiesFailing": Recorded(refuse_write, {"ClusterRegistryCopiesFailing": RULE}),
    "ClusterRegistryCopiesBehind": Recorded(lack_namespace, {"ClusterRegistryCopiesBehind": RULE}),
    **dict.fromkeys(
        ("ClusterRegistryCopiesSlow", "ClusterRegistryQueueSlow"),
        Recorded(slow_down, {"ClusterRegistryCopiesSlow": {}, "ClusterRegistryQueueSlow": {}}, each_minute=change_many),
    ),
    "ClusterRegistryWatchRestarts": Recorded(restart_kopf, {"ClusterRegistryWatchRestarts": {}}),
    "ClusterRegistryPeerUnreachable": Recorded(lose_peer, {"ClusterRegistryPeerUnreachable": PEER}),
    "ClusterRegistryKindNotRead": Recorded(lose_right, {"ClusterRegistryKindNotRead": PEER | {"kind": "ConfigMap"}}),
    "ClusterRegistryCopiesConflicting": Recorded(take_place, {"ClusterRegistryCopiesConflicting": RULE}),
    "ClusterRegistryDeletionsHalted": Recorded(delete_many, {"ClusterRegistryDeletionsHalted": PEER}),
}


def read_samples(member: Member) -> dict[str, float]:
    """Read the metrics of a member's daemon as Prometheus does: the value of each series, by its name and labels."""
    if member.daemon is None:
        return {}
    families: list[Metric] = list(text_string_to_metric_families(member.daemon.gauges.render("")[0].decode()))
    found = {}
    for sample in (sample for family in families for sample in family.samples if sample.name.startswith(PREFIX)):
        labels = ",".join(f"{name}={json.dumps(value)}" for name, value in sample.labels.items())
        found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def record(fault: Recorded, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Scrape a daemon once a minute, at first without the fault; return the series in the notation of promtool."""
    began_s = math.nan

    async def scenario(group: SimGroup) -> list[dict[str, float]]:
        nonlocal began_s
        await join(group)
        began_s = asyncio.get_running_loop().time()
        scrapes = []
        for minute in range(HEALTHY_MIN + fault.after_min):
            if minute == HEALTHY_MIN:
                fault.inject(group)
            if minute >= HEALTHY_MIN and fault.each_minute is not None:
                fault.each_minute(group)
            scrapes.append(read_samples(group["a"]))
            await asyncio.sleep(60.0)
        return scrapes

    # Timestamps count from the first scrape, as the time of promtool does.
    defaults: dict[str, Any] = Gauges.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "now_s", lambda: asyncio.get_running_loop().time() - began_s)
    with virtual_clocks():
        scrapes = simulate(scenario, n=2)
    names = sorted(set().union(*scrapes))
    return {name: " ".join(spell(scrape.get(name)) for scrape in scrapes) for name in names}


def spell(value: float | None) -> str:
    """Spell a sample for promtool; None where a scrape did not have it."""
    if value is None:
        return "_"
    return f"{value:.6f}" if math.isfinite(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")


@pytest.mark.parametrize("alert", RECORDED)
def test_an_alert_fires_on_the_recorded_metrics_of_its_fault_and_no_other_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alert: str
) -> None:
    fault = RECORDED[alert]
    assert alert in fault.alerts
    series = record(fault, monkeypatch)
    moments = {HEALTHY_MIN - 1: {}, HEALTHY_MIN + fault.after_min - 1: fault.alerts}
    run(tmp_path, [case(series, alerts, at_min=minute) for minute, alerts in moments.items()])


# --- Written faults ----------------------------------------------------------------------------------------------


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


def test_every_alert_has_a_fault() -> None:
    assert FAULTS.keys().isdisjoint(RECORDED)
    assert FAULTS.keys() | RECORDED.keys() == severities().keys()


@pytest.mark.parametrize("alert", FAULTS)
def test_an_alert_fires_on_its_fault_and_no_other_does(tmp_path: Path, alert: str) -> None:
    fault = FAULTS[alert]
    assert alert in fault.alerts
    run(tmp_path, [case(changed(fault.series), fault.alerts)])


def test_no_alert_fires_while_nothing_is_wrong(tmp_path: Path) -> None:
    run(tmp_path, [case(changed(dict(series)), {}) for series in FINE.values()])


def test_a_test_of_promtool_can_fail(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="FAILED"):
        run(tmp_path, [case(HEALTHY, {"ClusterRegistryDaemonMissing": {}})])
