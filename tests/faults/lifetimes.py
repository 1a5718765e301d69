"""Faults of tokens that expire, of the account they are for: 9, what `credentials` leaves."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import trustme
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from hack.controlplane import ApiError
from hack.controlplane.pki import Pair
from tests.e2e.group import CHART, NAMESPACE
from tests.faults.bed import Site, wait
from tests.faults.calls import Answer, Call
from tests.faults.catalogue import fault
from tests.faults.credentials import published, state_of
from tests.faults.endurance import carry
from tests.faults.play import Play
from tests.faults.scripts import Pass
from tests.faults.weather import CUT
from tests.faults.workload import WANTED, path_of

_ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/cluster-registry-controller-reader"
_ASKED_S = 600  # API servers refuse less
_GRANTED_S = 60
_LEEWAY_S = 60  # for which API servers take a token that has expired
_LIFETIMES = 6
_LATE_S = 15.0  # the longest that a change may be under way while tokens are replaced
_BEAT_S = 1.0
_RESET_S = 20.0


class ShortLived(Pass):
    """A server that grants the reader's tokens a minute only: they are signed with its own key, as any other."""

    def __init__(self, site: Site) -> None:
        self._api = site.cluster.api
        self._key = serialization.load_pem_private_key(site.cluster.pki.token_key.read_bytes(), password=None)
        self.count = 0

    async def before(self, call: Call) -> Answer | None:
        if (call.method, call.path) != ("POST", f"{_ACCOUNT}/token"):
            return None
        granted = await asyncio.to_thread(self._api.request, "POST", call.path, body=json.loads(call.body))
        granted["status"]["token"] = self._shortened(granted["status"]["token"])
        self.count += 1
        return Answer(201, json.dumps(granted).encode())

    def _shortened(self, token: str) -> str:
        head, payload, _ = token.split(".")
        claims = claims_of(token)
        claims["exp"] = claims["iat"] + _GRANTED_S
        payload = _base64(json.dumps(claims).encode())
        assert isinstance(self._key, ec.EllipticCurvePrivateKey)
        r, s = decode_dss_signature(self._key.sign(f"{head}.{payload}".encode(), ec.ECDSA(hashes.SHA256())))
        return f"{head}.{payload}.{_base64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def claims_of(token: str) -> dict[str, Any]:
    """What a token says of itself."""
    payload = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


def token_of(site: Site, name: str) -> str:
    """The token of a member, as one site holds it."""
    text = base64.b64decode(published(site, name)).decode()
    return text.split("token: ", 1)[1].splitlines()[0].strip("\"' ")


def lifetime_s(site: Site) -> float:
    """How long the token lives that a site publishes; infinity for one that lasts."""
    claims = claims_of(token_of(site, site.name))
    return float(claims["exp"] - claims["iat"]) if "exp" in claims else float("inf")


def ask_for_lifetime(play: Play, seconds: int) -> None:
    """Have all daemons publish tokens with a lifetime, or, with 0, tokens that last."""
    for site in play.sites:
        site.cluster.helm(
            "upgrade", "cluster-registry", str(CHART), "--namespace", NAMESPACE, "--reuse-values",
            "--set", f"controller.readerTokenExpirationSeconds={seconds}",
        )  # fmt: skip
    for site in play.sites:
        wait(
            lambda site=site: (lifetime_s(site) < float("inf")) == bool(seconds),
            within_s=90, what=f"other tokens of {site.name}",
        )  # fmt: skip
    for site in play.sites:
        site.daemon.wait_ready(timeout_s=60)


class Beat:
    """One object at each site that changes all the time, and how late each state was at each other site, in seconds.

    `except_` are the ways (taker, giver) of which nothing is asked just now.
    """

    def __init__(self, sites: Sequence[Site]) -> None:
        self._sites = sites
        self._written: dict[str, list[tuple[int, float]]] = {site.name: [] for site in sites}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, name="beat", daemon=True),
            threading.Thread(target=self._look, name="beat seen", daemon=True),
        ]
        self.except_: set[tuple[str, str]] = set()
        self.states = 0
        self.latest_s: dict[tuple[str, str], float] = {}

    def __enter__(self) -> Beat:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def spare(self, ways: set[tuple[str, str]]) -> None:
        """Ask nothing of these ways; of those that were spared before, only for what comes from now on."""
        for taker, giver in self.except_ - ways:
            wait(lambda taker=taker, giver=giver: self._late_s(taker, giver) < _LATE_S / 3, within_s=90)
        self.except_ = ways

    def _write(self) -> None:
        while not self._stop.wait(_BEAT_S):
            self.states += 1
            for site in self._sites:
                name, data = f"beat-{site.name}", {"n": f"beat {self.states}"}
                body = {"metadata": {"name": name, "labels": WANTED}, "data": data}
                path = path_of("cm", name)
                if site.write("PATCH", path, body, content_type="application/merge-patch+json") is None:
                    body |= {"apiVersion": "v1", "kind": "ConfigMap"}
                    if site.write("POST", path_of("cm"), body) is None:
                        continue
                self._written[site.name].append((self.states, time.monotonic()))

    def _look(self) -> None:
        while not self._stop.wait(_BEAT_S / 2):
            for taker in self._sites:
                for giver in self._sites:
                    way = (taker.name, giver.name)
                    if taker is not giver and way not in self.except_:
                        self.latest_s[way] = max(self.latest_s.get(way, 0.0), self._late_s(*way))

    def _late_s(self, taker: str, giver: str) -> float:
        """How long the oldest state that is not there has been under way."""
        site = next(site for site in self._sites if site.name == taker)
        try:
            seen = int(site.cluster.api.get(path_of("cm", f"beat-{giver}"))["data"]["n"].split()[1])
        except (ApiError, KeyError, ValueError, IndexError):
            seen = 0
        missing = [at for state, at in list(self._written[giver]) if state > seen]
        return time.monotonic() - missing[0] if missing else 0.0


@contextlib.contextmanager
def short_lived(play: Play) -> Iterator[list[ShortLived]]:
    """Let all API servers grant a minute, and all daemons ask for tokens that expire."""
    scripts = [ShortLived(site) for site in play.sites]
    with contextlib.ExitStack() as stack:
        for site, script in zip(play.sites, scripts, strict=True):
            stack.enter_context(play.bed.scripted(site.home, site, script))
        ask_for_lifetime(play, _ASKED_S)
        assert all(lifetime_s(site) == _GRANTED_S for site in play.sites)
        yield scripts
        ask_for_lifetime(play, 0)


@fault(
    9,
    "lifetimes",
    what="all tokens live for a minute, through six lifetimes under load; meanwhile one member cannot reach another "
    "for longer than a token is taken, then it can reach nobody for as long",
    undone="the ways are mended, credentials are carried by hand where the Cluster asks for it, and tokens last again",
    within_s=150,
)
def lifetimes(play: Play) -> None:
    one, other, third = play.sites
    seen: set[str] = set()
    expired_s = _GRANTED_S + _LEEWAY_S + 15
    with short_lived(play) as scripts, Beat(play.sites) as beat, play.working(gentle=True):
        began = time.monotonic()
        way = play.bed.way(third, one)
        beat.spare({(third.name, one.name)})
        with play.weather([way], CUT, "refused"):
            _pass_time(play, expired_s, seen)
            wait(lambda: token_of(third, one.name) == token_of(one, one.name), within_s=30, what="relayed credentials")
        beat.spare(set())
        _pass_time(play, began + _LIFETIMES * _GRANTED_S - time.monotonic(), seen)
        renewals = [script.count for script in scripts]
        ways = [play.bed.way(third, site) for site in (one, other)]
        beat.spare({(third.name, site.name) for site in (one, other)})
        with play.weather(ways, CUT, "refused"):
            _pass_time(play, expired_s, seen)
        for site in (one, other):
            wait(
                lambda site=site: "carry the Secret over" in state_of(third, site.name) or _is_ready(third, site.name),
                within_s=60, what=f"what {third.name} says of {site.name}",
            )  # fmt: skip
        asked = [site.name for site in (one, other) if "carry the Secret over" in state_of(third, site.name)]
        play.say(f"{third.name} asks for the Secrets of {', '.join(asked) or 'nobody'}")
        carry(one, third)  # the other one's comes with it
        beat.spare(set())
        _pass_time(play, 10.0, seen)
        late = ", ".join(f"{giver}->{taker} {late_s:.1f} s" for (taker, giver), late_s in beat.latest_s.items())
        play.say(f"{len(seen)} tokens; the latest state of each way: {late}")
        assert min(renewals) >= _LIFETIMES, renewals
        assert max(beat.latest_s.values()) < _LATE_S, beat.latest_s
    play.bite("tokens that were replaced", len(seen))
    for site in play.sites:
        play.work.delete(site, f"beat-{site.name}", "cm")


def _pass_time(play: Play, seconds: float, seen: set[str]) -> None:
    """Let time pass, take note of the tokens, and have everybody show theirs again now and then."""
    until, reset_at = time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < until:
        if time.monotonic() >= reset_at:  # who has an open stream is not asked for its token
            for edge in list(play.bed.wires.edges.values()):
                edge.reset_all()
            reset_at += _RESET_S
        for site in play.sites:
            seen.add(token_of(site, site.name))
        time.sleep(min(2.0, max(0.0, until - time.monotonic())))


def _is_ready(site: Site, name: str) -> bool:
    return '"state": "Ready"' in state_of(site, name)


@fault(
    9,
    "real-lifetime",
    what="tokens live for ten minutes, the least that API servers grant, until those that were published first are not "
    "taken any more",
    undone="tokens last again",
    within_s=150,
)
def real_lifetime(play: Play) -> None:
    ask_for_lifetime(play, _ASKED_S)
    first = {site.name: token_of(site, site.name) for site in play.sites}
    seen: set[str] = set()
    with Beat(play.sites) as beat, play.working(pause_s=1.0, gentle=True):
        _pass_time(play, _ASKED_S + _LEEWAY_S + 15, seen)
        assert max(beat.latest_s.values()) < _LATE_S, beat.latest_s
    play.bite("tokens that were replaced", sum(token_of(site, site.name) != first[site.name] for site in play.sites))
    ask_for_lifetime(play, 0)
    for site in play.sites:
        play.work.delete(site, f"beat-{site.name}", "cm")


@fault(
    9,
    "reader-account",
    what="the account with which the others read is deleted at one cluster, and made again after 15 s",
    undone="it is there again, with the same rights",
    within_s=120,
)
def reader_account(play: Play) -> None:
    one, *others = play.sites
    old = token_of(one, one.name)
    account = one.cluster.api.get(_ACCOUNT)
    info = {key: account["metadata"].get(key, {}) for key in ("name", "namespace", "labels", "annotations")}
    with play.working(gentle=True):
        one.write("DELETE", _ACCOUNT)
        time.sleep(5)
        said = wait(lambda: "does not exist" in state_of(one, one.name), within_s=30, what="what is said of it")
        play.say(f"{one.name} says that its reader's account is missing")
        time.sleep(10)
        made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": info}
        assert one.write("POST", _ACCOUNT.rpartition("/")[0], made) is not None
        wait(lambda: token_of(one, one.name) != old, within_s=60, what="a new token")
        for other in others:
            wait(lambda other=other: token_of(other, one.name) == token_of(one, one.name), within_s=90,
                 what=f"the new credentials at {other.name}")  # fmt: skip
    play.bite("accounts that were missed", int(bool(said)))


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
        _pass_time(play, 60.0, set())
        begun = min(len(call.seen) for call in calls)
        stack.close()
        _publish(play, one, old, but=both.removeprefix(old))
        late = ", ".join(f"{giver}->{taker} {late_s:.1f} s" for (taker, giver), late_s in beat.latest_s.items())
        play.say(f"the latest state of each way: {late}")
        assert max(beat.latest_s.values()) < _LATE_S, beat.latest_s
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
