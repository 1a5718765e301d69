"""The result of one check, and what corrects each cause.

Law: a finding holds no data of Secrets. Findings are JSON on the way from a daemon's Pod; unknown fields are ignored.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from registry_controller.admin.sites import DEFAULT_READER
from registry_controller.local.manifests import token_secret_keys


class Level(enum.Enum):
    """The weight of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Problem(enum.Enum):
    """The causes of failed checks; the values are words of the JSON output."""

    KUBECONFIG = "InvalidKubeconfig"
    LOOPBACK = "LoopbackAddress"
    DNS = "NotResolved"
    REFUSED = "ConnectionRefused"
    NO_ROUTE = "NoRoute"
    TIMEOUT = "NoAnswer"
    NO_TLS = "NoTLS"
    WRONG_NAME = "CertificateNotValidForAddress"
    UNTRUSTED = "UnknownCertificateAuthority"
    EXPIRED = "CertificateExpired"
    NOT_YET_VALID = "CertificateNotYetValid"
    EXPIRES_SOON = "CertificateExpiresSoon"
    HANDSHAKE = "TLSHandshakeFailed"
    NOT_KUBERNETES = "NoAPIServer"
    OTHER_CLUSTER = "OtherCluster"
    MOVED = "AddressChanged"
    UNAUTHORIZED = "TokenRefused"
    MISSING_RIGHT = "MissingRight"
    CLOCK = "ClocksDiffer"
    OLD_SERVER = "OldAPIServer"
    NOT_INSTALLED = "NotInstalled"
    OLD_DEFINITIONS = "OldDefinitions"
    OWN_RIGHT = "OwnRightMissing"
    NO_POD = "NoDaemon"
    NOT_CREATED = "NoPod"
    NO_REPLICA = "NoReplica"
    NO_NODE = "NoNode"
    IMAGE = "ImageNotPulled"
    NOT_PUBLISHED = "NotPublished"
    NOT_SWAPPED = "NotSwapped"
    NOT_READ = "NotRead"
    OTHER = "Failed"


class CheckResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one check: `subject` is the cluster that was checked, `step` the check in one word.

    `problem` is missing where all is well.
    """

    subject: str
    step: str
    level: Level
    message: str
    problem: Problem | None = None

    @property
    def is_failure(self) -> bool:
        """True for a finding that ends a command with exit code 1."""
        return self.level is Level.FAIL


class Remedies(Protocol):
    """The places where a command's user corrects a cluster's address, CA and credentials, in words."""

    def address(self, name: str) -> str: ...

    def after_address(self, name: str) -> str: ...

    def ca(self, name: str) -> str: ...

    def token(self, name: str) -> str: ...


_REMEDIES: Final[Mapping[Problem, str]] = {
    Problem.KUBECONFIG: "delete that Secret in {name}, and its daemon publishes it again",
    Problem.LOOPBACK: "set {address} to the host and port at which the Pods of the other clusters reach its API server",
    Problem.DNS: "set {address} to a name that the Pods of the other clusters resolve, or correct the DNS",
    Problem.REFUSED: "set {address} to the host and port at which the other clusters reach its API server",
    Problem.NO_ROUTE: "connect the networks, or set {address} to an address to which a route leads",
    Problem.TIMEOUT: "let firewalls and security groups pass this connection, or set {address} to another address",
    Problem.NO_TLS: "set {address} to the HTTPS port of the API server",
    Problem.WRONG_NAME: "set {address} to one of the names in the certificate, or add the address to the certificate "
    "(kubeadm: --apiserver-cert-extra-sans)",
    Problem.UNTRUSTED: "if another server answers there, set {address} to the right address; else set {ca} to the "
    "certificate authority that issued the certificate at this address",
    Problem.EXPIRED: "renew the certificate of that API server",
    Problem.NOT_YET_VALID: "correct the clocks of that API server and of the machine that checks",
    Problem.EXPIRES_SOON: "renew the certificate of that API server",
    Problem.HANDSHAKE: "read the log of that API server",
    Problem.NOT_KUBERNETES: "set {address} to an address that leads to a Kubernetes API server",
    Problem.OTHER_CLUSTER: "set {address} to the address of {name}",
    Problem.MOVED: "run `registry-controller join` with the contexts of both, and of each other member that has the "
    "earlier address: no member takes a new address from another one",
    Problem.UNAUTHORIZED: "{token}",
    Problem.MISSING_RIGHT: "install the chart in {name} with its ClusterRoles, or grant the right there by the output "
    "of `registry-controller rbac`",
    Problem.CLOCK: "correct the clocks, by NTP",
    Problem.OLD_SERVER: "upgrade the cluster",
    Problem.NOT_INSTALLED: "install the chart there first: `helm --kube-context CONTEXT install cluster-registry "
    "deploy/helm/cluster-registry --namespace cluster-registry --create-namespace --set localCluster.name=NAME "
    "--set controller.apiServerEndpointAddress=ADDRESS`",
    Problem.OLD_DEFINITIONS: "apply the definitions of this release: `registry-controller crds | kubectl apply "
    "--server-side --force-conflicts -f -`",
    Problem.OWN_RIGHT: "grant it, as by the chart's ClusterRoles, or use another --context",
    Problem.NO_POD: "read the Events and the log of the Pods in the daemon's namespace",
    Problem.NOT_CREATED: "wait some seconds after an installation; else read the Events of the Deployment and its "
    "ReplicaSets",
    Problem.NO_REPLICA: "set the chart's replicas to 1 or more",
    Problem.NO_NODE: "add a node on which the Pod may run: the chart's nodeSelector, tolerations, affinity and "
    "resources limit the nodes",
    Problem.IMAGE: "set the chart's image.repository and image.tag to an image that the nodes can pull",
    Problem.NOT_PUBLISHED: "read the log of the daemon",
    Problem.NOT_SWAPPED: "let the two join: `registry-controller join`",
    Problem.NOT_READ: "correct the named cause; the daemon tries again by itself",
    Problem.OTHER: "read the log of that API server",
}


def remedy(finding: CheckResult, remedies: Remedies) -> str:
    """Return what corrects a finding; empty where all is well."""
    if finding.problem is None:
        return ""
    name, template = finding.subject, _REMEDIES[finding.problem]
    text = template.format(name=name, address=remedies.address(name), ca=remedies.ca(name), token=remedies.token(name))
    return text + (remedies.after_address(name) if "{address}" in template else "")


_TOKEN, _BINDING = (key.name for key in token_secret_keys("", DEFAULT_READER))
_REVOKE: Final = (
    f"only while that daemon runs, and this stays, delete its Secret {_TOKEN}, or {_BINDING} where tokens have a "
    "lifetime: that revokes the token, and the daemon publishes a new one"
)


class FlagRemedies:
    """The flags of `join`, which reads the token where it is published."""

    def address(self, name: str) -> str:
        """Return the flag for an address."""
        return f"--endpoint {name}=URL"

    def after_address(self, name: str) -> str:
        """Return which members get the address."""
        return f"; give a --context for each member that does not read {name}: none takes an address from another one"

    def ca(self, name: str) -> str:
        """Return the flag for a certificate authority."""
        return f"--ca-file {name}=FILE"

    def token(self, name: str) -> str:
        """Return what replaces the published token."""
        return (
            f"see first that the daemon of {name} runs: it publishes a token that works; if the token is new, wait ten "
            f"seconds; {_REVOKE}"
        )


class ValueRemedies:
    """The values of the chart, and the fields of the Cluster."""

    def address(self, name: str) -> str:
        """Return the chart's value for an address."""
        return f"controller.apiServerEndpointAddress in {name}"

    def after_address(self, name: str) -> str:
        """Return the field that goes before the value, and what brings the address to the other members."""
        return (
            f"; serverAddress in its Cluster, if set, goes before it; then run `registry-controller join` with the "
            f"contexts of {name} and of each member that does not read it"
        )

    def ca(self, name: str) -> str:
        """Return the field for a certificate authority."""
        return f"spec.kubernetesApiEndpoints[].caBundle of Cluster {name} in {name}"

    def token(self, name: str) -> str:
        """Return what brings the newer token, or makes one."""
        return (
            "`registry-controller join` with the contexts of both clusters brings newer credentials; if `check` in "
            f"{name} shows the same, see that its daemon runs: it publishes a token that works; {_REVOKE}"
        )


class FirstRemedies(FlagRemedies):
    """The values and flags before the installation, when there is no Cluster."""

    def address(self, name: str) -> str:
        """Return the chart's value for an address, and the flag that tries one."""
        return "controller.apiServerEndpointAddress of the chart (--address here)"

    def after_address(self, name: str) -> str:
        """Return nothing: no member has an address yet."""
        return ""

    def ca(self, name: str) -> str:
        """Return the flag for a certificate authority, which `join` takes."""
        return f"--ca-file {name}=FILE of join, after the installation"


class Viewed(NamedTuple):
    """The findings about one cluster from one place: `place` is the cluster of the Pod, empty for this machine."""

    place: str
    findings: Sequence[CheckResult]


def has_failure(findings: Iterable[CheckResult]) -> bool:
    """Return whether a finding is a failure."""
    return any(finding.is_failure for finding in findings)
