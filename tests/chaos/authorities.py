"""Faults of the CA of a cluster's servers: 9, what `credentials` and `lifetimes` leave."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path

import trustme
import yaml

from hack.controlplane.pki import Pair
from tests.chaos.beat import LATE_S, Beat, pass_time
from tests.chaos.bed import Site, wait
from tests.chaos.catalogue import fault
from tests.chaos.credentials import published
from tests.chaos.play import Play
from tests.chaos.scripts import Pass


@fault(
    9,
    "authority",
    what="the CA of one cluster's servers is replaced: all are given both, then its servers show certificates of the "
    "new one, and all connections to it begin anew",
    undone="its servers show the old certificates, and only their CA is published again",
    within_s=150,
)
def authority(play: Play) -> None:
    one = play.sites[0]
    old, new = one.cluster.pki.server_ca.read_text(), trustme.CA(key_type=trustme.KeyType.ECDSA)
    both = old + new.cert_pem.bytes().decode()
    begun = 0
    with Beat(play.sites) as beat, play.working(gentle=True), contextlib.ExitStack() as stack:
        _publish(play, one, both, but="")
        shown = _issue(new, one.cluster.directory)
        edges = [one.home, *(play.bed.way(other, one) for other in play.sites[1:])]
        calls = [stack.enter_context(play.bed.scripted(edge, one, Pass(), shown=shown)) for edge in edges]
        for edge in edges:
            edge.reset_all()
        pass_time(play, 60.0)
        begun = min(len(call.seen) for call in calls)
        stack.close()
        _publish(play, one, old, but=both.removeprefix(old))
        late = ", ".join(f"{giver}->{taker} {late_s:.1f} s" for (taker, giver), late_s in beat.latest_s.items())
        play.say(f"the latest state of each way: {late}")
        assert max(beat.latest_s.values()) < LATE_S, beat.latest_s
    play.bite("calls to servers of the new CA, on the way with the fewest", begun)
    for site in play.sites:
        play.work.delete(site, f"beat-{site.name}", "cm")


def _issue(authority: trustme.CA, directory: Path) -> Pair:
    """Make a certificate as the API server has one."""
    made = authority.issue_cert("127.0.0.1", "kubernetes.default.svc", key_type=trustme.KeyType.ECDSA)
    pair = Pair(directory / "shown.crt", directory / "shown.key")
    pair.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    pair.key.write_bytes(made.private_key_pem.bytes())
    return pair


def _publish(play: Play, site: Site, ca_pem: str, *, but: str) -> None:
    """Let a cluster's controllers, kubelet and daemon publish this CA, and wait until all have it and not another."""
    site.cluster.pki.server_ca.write_text(ca_pem)
    site.cluster.controller_manager.stop()
    site.cluster.controller_manager.start()
    site.daemon.rotate_token()
    for other in play.sites:
        wait(
            lambda other=other: _has_ca(other, site.name, ca_pem) and not (but and _has_ca(other, site.name, but)),
            within_s=90, what=f"the CA of {site.name} at {other.name}",
        )  # fmt: skip


def _has_ca(site: Site, name: str, ca_pem: str) -> bool:
    """Say whether all certificates of a CA are in what one site holds of a member."""
    document = yaml.safe_load(base64.b64decode(published(site, name)))
    held = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    return all(part.strip() in held for part in ca_pem.split("-----END CERTIFICATE-----") if part.strip())
