"""The chart's alerts, judged by promtool: each fires on the metrics of its fault, and no other one does."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from hack.controlplane import ensure_binaries

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "helm" / "cluster-registry" / "files" / "alerts.yaml"
P = "registrycontroller_"
STEPS = 420  # minutes of metrics
FAST = {"0.5": "0+10x420", "60": "0+10x420", "+Inf": "0+10x420"}
SLOW = {"0.5": "0+0x420", "60": "0+10x420", "+Inf": "0+10x420"}


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
    f"{P}ear_restarts_total": f"0x{STEPS}",
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
    "ClusterRegistryDaemonMissing": Fault(
        {f'{P}build_info{{version="1"}}': None}, {"ClusterRegistryDaemonMissing": {}}
    ),
    "ClusterRegistryPeerUnreachable": Fault(
        {f'{P}peer_up{{peer="b"}}': f"0x{STEPS}"}, {"ClusterRegistryPeerUnreachable": PEER}
    ),
    "ClusterRegistryPeerLost": Fault(
        {f'{P}peer_last_contact_timestamp_seconds{{peer="b"}}': f"0x{STEPS}"}, {"ClusterRegistryPeerLost": PEER}
    ),
    "ClusterRegistryKindNotRead": Fault(
        {f'{P}reflector_stalled{{peer="b",kind="Secret"}}': f"1x{STEPS}"},
        {"ClusterRegistryKindNotRead": PEER | {"kind": "Secret"}},
    ),
    **{
        alert: Fault({f'{P}copies{{rule="r",state="{state}"}}': f"3x{STEPS}"}, {alert: RULE})
        for alert, state in (
            ("ClusterRegistryCopiesFailing", "failing"),
            ("ClusterRegistryCopiesConflicting", "conflicting"),
            ("ClusterRegistryCopiesBehind", "behind"),
        )
    },
    "ClusterRegistryDeletionsHalted": Fault(
        {f'{P}held{{peer="b",reason="DeletionHalted"}}': f"60x{STEPS}"}, {"ClusterRegistryDeletionsHalted": PEER}
    ),
    # A token of seven hours that is not renewed; at the end 40 minutes are left.
    "ClusterRegistryReaderTokenExpires": Fault(
        {f"{P}reader_token_expiry_timestamp_seconds": f"25200x{STEPS}"}, {"ClusterRegistryReaderTokenExpires": {}}
    ),
    "ClusterRegistryCopiesSlow": Fault(dict(histogram("copy_delay_seconds", SLOW)), {"ClusterRegistryCopiesSlow": {}}),
    "ClusterRegistryQueueSlow": Fault(
        dict(histogram("workqueue_latency_seconds", SLOW)), {"ClusterRegistryQueueSlow": {}}
    ),
    "ClusterRegistryWatchRestarts": Fault(
        {f"{P}ear_restarts_total": f"0+1x{STEPS}"}, {"ClusterRegistryWatchRestarts": {}}
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


def case(changed: dict[str, str | None], alerts: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Write a test of promtool: these series, and after six hours exactly these alerts."""
    series = {name: values for name, values in (HEALTHY | changed).items() if values is not None}
    firing = []
    for alert, labels in alerts.items():
        shown = {"alertname": alert, "alertstate": "firing", "severity": severities()[alert], **labels}
        text = ",".join(f'{name}="{value}"' for name, value in shown.items())
        firing.append({"labels": f"ALERTS{{{text}}}", "value": 1})
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{AT_MIN}m", "exp_samples": firing}],
    }


def run(tmp_path: Path, tests: list[dict[str, Any]]) -> None:
    file = tmp_path / "alerts_test.yaml"
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(document, width=10**6), encoding="utf-8")
    promtool("test", "rules", str(file))


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


def test_every_alert_has_a_fault() -> None:
    assert set(FAULTS) == set(severities())


@pytest.mark.parametrize("alert", FAULTS)
def test_an_alert_fires_on_its_fault_and_no_other_does(tmp_path: Path, alert: str) -> None:
    fault = FAULTS[alert]
    assert alert in fault.alerts
    run(tmp_path, [case(fault.series, fault.alerts)])


def test_no_alert_fires_while_nothing_is_wrong(tmp_path: Path) -> None:
    run(tmp_path, [case(dict(changed), {}) for changed in FINE.values()])


def test_a_test_of_promtool_can_fail(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="FAILED"):
        run(tmp_path, [case({}, {"ClusterRegistryDaemonMissing": {}})])
