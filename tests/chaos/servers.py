"""Faults of API servers and of what is behind them: 6, 7, 8, 21."""

from __future__ import annotations

import contextlib
import json
import time

from tests.chaos import etcd
from tests.chaos.bed import Site, wait
from tests.chaos.calls import Answer
from tests.chaos.catalogue import fault
from tests.chaos.links import between, homes
from tests.chaos.play import Play
from tests.chaos.scripts import Count, Lag, Refuse
from tests.chaos.weather import CUT


def refused(site: Site, since: int, *codes: int, words: str = "") -> int:
    """Count what an API server refused to the daemons with one of these codes, by its audit log."""
    return sum(
        (line.get("responseStatus") or {}).get("code") in codes
        and "cluster-registry-controller" in line["user"].get("username", "")
        and words in str(line.get("responseStatus"))
        for line in site.cluster.audit(since)
    )


@fault(
    6,
    "expired-history",
    what="while all are cut off from each other, and then each from itself, objects change, each etcd is "
    "compacted and each API server started anew",
    undone="the edges pass again",
)
def expired_history(play: Play) -> None:
    count = Count(b'"code":410', b"too old resource version")
    with contextlib.ExitStack() as stack:
        for giver in play.sites:
            for taker in play.sites:
                stack.enter_context(play.bed.scripted(play.bed.way(taker, giver), giver, count))
        for _ in range(2):
            with play.working(), play.weather([*between(play), *homes(play)], CUT, "refused"):
                time.sleep(3)
                for site in play.sites:
                    play.work.put(site, f"{site.name}-0", "cm")
                    revision = etcd.compact(site.cluster)
                    site.cluster.apiserver.restart()
                    play.say(f"{site.name}: compacted at {revision}, API server started anew")
            time.sleep(4)
            if count.count:
                break
        play.rest(within_s=90)
    play.bite("answers that history is gone", count.count)


@fault(
    7,
    "server-errors",
    what="API servers end (SIGTERM, SIGKILL) and start again; then the edges answer 503, 500, 429 with "
    "Retry-After, and pages that are no JSON in their place, 6 s each",
    undone="the edges pass the API servers' answers",
)
def server_errors(play: Play) -> None:
    restarts = 0
    with play.working():
        for number, site in enumerate(play.sites):
            if number % 2:
                site.cluster.apiserver.kill()
                site.cluster.apiserver.start()
                site.cluster.apiserver.wait_ready()
            else:
                site.cluster.apiserver.restart()
            restarts += 1
            time.sleep(2)
        play.bite("restarts of API servers", restarts)
        slowly = json.dumps({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 1}}).encode()
        for answer in (
            Answer(503, b"no endpoints available"),
            Answer(500, b'{"kind":"Status","apiVersion":"v1","code":500,"message":"etcdserver: request timed out"}'),
            Answer(429, slowly, (("Content-Type", "application/json"), ("Retry-After", "1"))),
            Answer(200, b"<html>a login page</html>", (("Content-Type", "text/html"),)),
        ):
            scripts = []
            with contextlib.ExitStack() as stack:
                for edges in (play.sites[0].home, play.bed.way(play.sites[1], play.sites[0]), play.sites[2].home):
                    giver = play.sites[2] if edges is play.sites[2].home else play.sites[0]
                    scripts.append(Refuse(answer))
                    stack.enter_context(play.bed.scripted(edges, giver, scripts[-1]))
                time.sleep(6)
            play.bite(f"answers {answer.status} in the place of the API server", sum(one.count for one in scripts))
            time.sleep(1)


@fault(
    8,
    "restored-backup",
    what="a cluster's etcd is put back to a copy of its data folder that is some 15 s old",
    undone="it goes on from there, and the others follow",
    within_s=120,
)
def restored_backup(play: Play) -> None:
    site = play.sites[1]
    cluster = site.cluster
    etcd.back_up(cluster)
    play.rest()
    with play.working(gentle=True):
        time.sleep(10)
    for number in range(3):
        play.work.put(site, f"{site.name}-{number}", "cm")
        play.work.delete(site, f"{site.name}-{number + 3}", "cm")
    play.work.put(site, "after-the-backup", "cm")
    play.rest()
    before = {item["metadata"]["name"] for item in cluster.api.get("/api/v1/namespaces/default/configmaps")["items"]}
    cluster.stop()
    play.observer.put_back(site.name)
    etcd.put_back(cluster)
    cluster.start()
    play.say(f"{site.name}: the backup is in the place of the present")
    after = {item["metadata"]["name"] for item in cluster.api.get("/api/v1/namespaces/default/configmaps")["items"]}
    play.bite("objects that the backup did not have", len(before - after))
    with play.working(gentle=True):
        time.sleep(5)


@fault(
    8,
    "late-cache",
    what="all streams from one peer begin with what was there some changes ago, and then say nothing, as from a cache "
    "that does not follow, for 10 s; one reader is killed meanwhile; what is asked for by name is answered as it is",
    undone="the streams are the API server's",
)
def late_cache(play: Play) -> None:
    owner, one, other = play.sites
    goes, changes, comes = "late-goes", "late-changes", "late-comes"
    for name in (goes, changes):
        play.work.put(owner, name, "cm")
    play.rest()
    scripts = [Lag(), Lag()]
    with contextlib.ExitStack() as stack:
        for site, script in zip((one, other), scripts, strict=True):
            stack.enter_context(play.bed.scripted(play.bed.way(site, owner), owner, script))
            play.kill(site)  # what its streams begin with is remembered
        wait(lambda: all(script.knows("configmaps") for script in scripts), within_s=30, what="streams that begin")
        play.rest()
        for _ in range(3):
            play.work.put(owner, changes, "cm")
        play.work.delete(owner, goes, "cm")
        play.work.put(owner, comes, "cm")
        play.rest()
        for script in scripts:
            script.is_late = True
        play.kill(one)
        play.bed.way(other, owner).reset_all()
        wait(lambda: scripts[0].count, within_s=30, what="streams that begin in the past")
        with play.working(gentle=True):
            time.sleep(10)
        play.bite("streams that began in the past", scripts[0].count)
    play.rest()
    for name in (changes, comes):
        play.work.delete(owner, name, "cm")


@fault(
    21,
    "etcd-full",
    what="etcd raises its alarm NOSPACE for 15 s in one cluster, then in all: every write is refused, reads go on",
    undone="the alarm is disarmed",
)
def etcd_full(play: Play) -> None:
    since = [site.cluster.audit_offset() for site in play.sites]
    with play.working():
        for sites in (play.sites[:1], play.sites):
            for site in sites:
                etcd.set_full(site.cluster, is_full=True)
            play.say(f"etcd of {', '.join(site.name for site in sites)} is full")
            try:
                time.sleep(2)
                play.kill(play.sites[0])
                time.sleep(13)
            finally:
                for site in sites:
                    etcd.set_full(site.cluster, is_full=False)
    pairs = zip(play.sites, since, strict=True)
    play.bite(
        "writes that etcd had no space for", sum(refused(site, at, 500, 507, words="space") for site, at in pairs)
    )


@fault(
    21,
    "disk-full",
    what="the small disk of one cluster's etcd is full for 15 s or until etcd ends, if that is later, while large "
    "objects are made there: etcd ends, and ends again when it is started",
    undone="there is room again, and etcd is started",
    needs="root, to mount a file system of 256 MiB in memory",
    within_s=120,
)
def disk_full(play: Play) -> None:
    site = play.sites[1]
    server, names = site.cluster.etcd, [f"large-{number}" for number in range(8)]
    with etcd.small_disk(site.cluster, size_mib=256) as disk:
        play.rest()
        ends = 0
        with play.working():
            ballast = disk / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(bytes(64 * 1024)):
                    pass
            until = time.monotonic() + 15
            # A slow group takes longer to fill the files that etcd has allocated before.
            latest = until + 300
            while time.monotonic() < (until if ends else latest):
                if not server.running:
                    ends += 1
                    server.start()
                play.work.put(site, names[ends % len(names)], "cm", large="x" * 400_000)
                time.sleep(0.5)
            ballast.unlink()
            server.start()
            server.wait_ready()
        play.bite("times that etcd ended", ends)
        play.rest(within_s=90)
        for name in names:
            play.work.delete(site, name, "cm")
    play.rest(within_s=90)
