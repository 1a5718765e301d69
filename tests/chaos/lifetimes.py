"""Faults of tokens that expire, of the account they are for: 9, what `credentials` leaves."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.chaos.beat import LATE_S, Beat, pass_time
from tests.chaos.bed import Site, wait
from tests.chaos.calls import Answer, Call
from tests.chaos.catalogue import fault
from tests.chaos.credentials import published
from tests.chaos.identities import asks_for, carry, state_of
from tests.chaos.play import Play
from tests.chaos.scripts import Pass
from tests.chaos.weather import CUT
from tests.e2e.group import CHART, NAMESPACE

_ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/cluster-registry-controller-reader"
_ASKED_S = 600  # API servers refuse less
_GRANTED_S = 60
_LEEWAY_S = 60  # for which API servers take a token that has expired
_LIFETIMES = 6


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


def lifetime_s(site: Site, name: str) -> float:
    """How long the token of a member lives, as one site holds it; infinity for one that lasts."""
    claims = claims_of(token_of(site, name))
    return float(claims["exp"] - claims["iat"]) if "exp" in claims else float("inf")


def ask_for_lifetime(play: Play, seconds: int) -> None:
    """Have all daemons publish tokens with a lifetime, and hold those of the others; or, with 0, tokens that last."""
    for site in play.sites:
        site.cluster.helm(
            "upgrade", "cluster-registry", str(CHART), "--namespace", NAMESPACE, "--reuse-values",
            "--set", f"controller.readerTokenExpirationSeconds={seconds}",
        )  # fmt: skip
    for site in play.sites:
        wait(
            lambda site=site: (lifetime_s(site, site.name) < float("inf")) == bool(seconds),
            within_s=90, what=f"other tokens of {site.name}",
        )  # fmt: skip
    for site in play.sites:
        site.daemon.wait_ready(timeout_s=60)
    for site, other in itertools.permutations(play.sites, 2) if seconds else ():
        wait(
            lambda site=site, other=other: lifetime_s(site, other.name) < float("inf"),
            within_s=90, what=f"the token of {other.name} at {site.name}",
        )  # fmt: skip


@contextlib.contextmanager
def short_lived(play: Play) -> Iterator[list[ShortLived]]:
    """Let all API servers grant a minute, and all daemons ask for tokens that expire."""
    scripts = [ShortLived(site) for site in play.sites]
    with contextlib.ExitStack() as stack:
        for site, script in zip(play.sites, scripts, strict=True):
            stack.enter_context(play.bed.scripted(site.home, site, script))
        ask_for_lifetime(play, _ASKED_S)
        assert all(lifetime_s(site, site.name) == _GRANTED_S for site in play.sites)
        yield scripts
        ask_for_lifetime(play, 0)


@fault(
    9,
    "lifetimes",
    what="all tokens live for a minute; under load one member cannot reach another for longer than a token is taken, "
    "then all can for six lifetimes, then that one reaches nobody for longer than a token is taken",
    undone="the ways are mended, credentials are carried by hand where the Cluster asks for it, and tokens last again",
    within_s=150,
    minutes=15,
)
def lifetimes(play: Play) -> None:
    one, other, third = play.sites
    seen: set[str] = set()
    expired_s = _GRANTED_S + _LEEWAY_S + 15

    def look() -> None:
        seen.update(token_of(site, site.name) for site in play.sites)

    with short_lived(play) as scripts, Beat(play.sites) as beat, play.working(gentle=True):
        way = play.bed.way(third, one)
        beat.spare({(third.name, one.name)})
        with play.weather([way], CUT, "refused"):
            pass_time(play, expired_s, look)
            assert claims_of(token_of(third, one.name))["exp"] < time.time(), "what was not tried is not stored"
        wait(lambda: token_of(third, one.name) == token_of(one, one.name), within_s=30, what="relayed credentials")
        beat.spare(set())
        pass_time(play, _LIFETIMES * _GRANTED_S, look)  # with all ways open, and none of them late
        renewals = [script.count for script in scripts]
        ways = [play.bed.way(third, site) for site in (one, other)]
        beat.spare({(third.name, site.name) for site in (one, other)})
        with play.weather(ways, CUT, "refused"):
            pass_time(play, expired_s, look)
        for site in (one, other):
            wait(
                lambda site=site: asks_for(third, site) or _is_ready(third, site.name),
                within_s=60, what=f"what {third.name} says of {site.name}",
            )  # fmt: skip
        asked = [site.name for site in (one, other) if asks_for(third, site)]
        play.say(f"{third.name} asks for the Secrets of {', '.join(asked) or 'nobody'}")
        carry(one, third)  # the other one's comes with it
        beat.spare(set())
        pass_time(play, 10.0, look)
        late = ", ".join(f"{giver}->{taker} {late_s:.1f} s" for (taker, giver), late_s in beat.latest_s.items())
        play.say(f"{len(seen)} tokens; the latest state of each way: {late}")
        assert min(renewals) >= _LIFETIMES, renewals
        assert max(beat.latest_s.values()) < LATE_S, beat.latest_s
    play.bite("tokens that were replaced", len(seen))
    for site in play.sites:
        play.work.delete(site, f"beat-{site.name}", "cm")


def _is_ready(site: Site, name: str) -> bool:
    return '"state": "Ready"' in state_of(site, name)


@fault(
    9,
    "real-lifetime",
    what="tokens live for ten minutes, the least that API servers grant, until those that were published first are not "
    "taken any more",
    undone="tokens last again",
    within_s=150,
    minutes=15,
)
def real_lifetime(play: Play) -> None:
    ask_for_lifetime(play, _ASKED_S)
    first = {site.name: token_of(site, site.name) for site in play.sites}
    with Beat(play.sites) as beat, play.working(pause_s=1.0, gentle=True):
        pass_time(play, _ASKED_S + _LEEWAY_S + 15)
        assert max(beat.latest_s.values()) < LATE_S, beat.latest_s
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
