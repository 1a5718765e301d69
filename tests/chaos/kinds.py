"""Faults of kinds and of what stands before them: 18, 19."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import trustme

from tests.chaos.bed import Site, wait
from tests.chaos.catalogue import fault
from tests.chaos.history import ACCOUNT
from tests.chaos.play import Play
from tests.chaos.workload import WANTED, work_rule
from tests.e2e.group import crd

_WIDGETS = "/apis/test.example.com/v1/namespaces/default/widgets"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _put_widget(play: Play, site: Site, name: str) -> None:
    spec = {"n": play.work.number()}
    patch = {"spec": spec}
    if site.write("PATCH", f"{_WIDGETS}/{name}", patch, content_type="application/merge-patch+json") is None:
        info = {"name": name, "labels": WANTED}
        made = {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": info, "spec": spec}
        site.write("POST", _WIDGETS, made)


def _has(site: Site, name: str) -> bool:
    return site.cluster.api.missing(f"{_WIDGETS}/{name}") is None


@fault(
    18,
    "lost-kinds",
    what="the definition of a kind that is copied is deleted at its owner and comes back, then at a reader, "
    "then its version is not served for 6 s",
    undone="it is served in all, then the rule and the kind go",
    within_s=150,
)
def lost_kinds(play: Play) -> None:
    taker, owner, third = play.sites
    definition = crd("Widget", versions=("v1beta1", "v1"))
    for site in play.sites:
        site.apply(definition)
        site.kubectl("wait", "--for=condition=Established", "crd/widgets.test.example.com", "--timeout=30s")
    rule = work_rule("work-widgets", "Widget")
    rule["spec"]["groupVersionKind"]["group"] = "test.example.com"
    taker.apply(rule)
    play.observer.watch_kind("Widget", of={site.name for site in play.sites})
    lost = 0
    with play.working():
        for number in range(3):
            _put_widget(play, owner, f"w-{number}")
            _put_widget(play, third, f"v-{number}")
        wait(lambda: _has(taker, "w-2") and _has(taker, "v-2"), within_s=90, what="copies of the new kind")
        for site in (owner, taker):
            site.kubectl("delete", "crd", "widgets.test.example.com", "--wait=true")
            lost += 1
            time.sleep(4)
            if site is owner:
                assert _has(taker, "v-0"), "what others own stays"
            site.apply(definition)
            site.kubectl("wait", "--for=condition=Established", "crd/widgets.test.example.com", "--timeout=30s")
            for number in range(3):
                _put_widget(play, owner, f"w-{number}")
            wait(
                lambda: _has(taker, "w-2") and _has(taker, "v-2"),
                within_s=120,
                what="copies of the kind that came back",
            )
        versions = [{**one, "served": one["name"] != "v1"} for one in definition["spec"]["versions"]]
        patch = {"spec": {"versions": versions}}
        owner.write("PATCH", f"{_DEFINITIONS}/widgets.test.example.com", patch,
                    content_type="application/merge-patch+json")  # fmt: skip
        lost += 1
        time.sleep(6)
        wait(lambda: _storage_path(taker), within_s=5, what="copies while their version is not served at the owner")
        owner.apply(definition)
    play.bite("times that a kind was not there", lost)
    for number in range(3):
        wait(lambda number=number: _put_served(play, owner, f"w-{number}"), within_s=30)
    play.rest(within_s=120)
    for site in play.sites:
        site.write("DELETE", "/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules/work-widgets")
    time.sleep(2)
    for site in play.sites:
        site.kubectl("delete", "crd", "widgets.test.example.com", "--wait=true")
    play.observer.forget_kind("Widget")


def _storage_path(site: Site) -> bool:
    return all(_has(site, f"w-{number}") for number in range(3))


def _put_served(play: Play, site: Site, name: str) -> bool:
    _put_widget(play, site, name)
    return _has(site, name)


class Webhook:
    """An admission webhook that is asked about ConfigMaps, and is unkind to the daemon alone."""

    def __init__(self) -> None:
        self.mood = "allow"
        self.asked = 0
        authority = trustme.CA()
        self.ca = base64.b64encode(authority.cert_pem.bytes()).decode()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(hook._answer(review["request"])).encode()
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                return None

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("faults.default.svc").configure_cert(context)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True).start()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        is_daemon = request["userInfo"]["username"] == ACCOUNT
        self.asked += is_daemon
        if is_daemon and self.mood == "hang":
            time.sleep(11)
        allowed = not (is_daemon and self.mood == "deny")
        status = {} if allowed else {"status": {"code": 403, "message": "the webhook of the faults says no"}}
        response = {"uid": request["uid"], "allowed": allowed, **status}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    def endpoints(self, namespace: str, selector: object, port: int | str) -> list[int]:
        return [self._server.server_address[1]] if selector == {"app": "faults"} else []

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def webhook(site: Site) -> Iterator[Webhook]:
    """Register a webhook in a cluster for a while."""
    hook = Webhook()
    site.cluster.services.join(hook.endpoints)
    site.apply(
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "faults", "namespace": "default"},
            "spec": {"selector": {"app": "faults"}, "ports": [{"port": 443, "targetPort": 8443}]},
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "faults"},
            "webhooks": [
                {
                    "name": "faults.example.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                    "timeoutSeconds": 10, "failurePolicy": "Fail",
                    "clientConfig": {"service": {"name": "faults", "namespace": "default"}, "caBundle": hook.ca},
                    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                               "operations": ["CREATE", "UPDATE", "DELETE"]}],
                }
            ],
        },
    )  # fmt: skip
    try:
        yield hook
    finally:
        site.kubectl(
            "delete", "validatingwebhookconfiguration,service", "faults", "-n", "default", "--ignore-not-found"
        )
        site.cluster.services.leave(hook.endpoints)
        hook.close()


@fault(
    19,
    "webhook",
    what="an admission webhook denies the daemon every write of a ConfigMap for 12 s, then hangs beyond its "
    "timeout of 10 s for 25 s, then is gone with failurePolicy Fail for 6 s",
    undone="the webhook is deleted",
)
def unkind_webhook(play: Play) -> None:
    with webhook(play.sites[0]) as hook, play.working():
        for mood, seconds in (("deny", 12), ("hang", 25)):
            hook.mood = mood
            play.say(f"the webhook will {mood}")
            time.sleep(seconds)
            play.bite(f"writes about which the webhook was asked that will {mood}", hook.asked)
            hook.asked = 0
        hook.mood = "allow"
        time.sleep(3)
        play.sites[0].cluster.services.leave(hook.endpoints)
        time.sleep(6)
