"""What a stranger may send as a kubeconfig, and what becomes of it: the table of clause P4.

A row that is refused has CANARY in the place of a credential, or as near to it as its form allows.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import trustme
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from registry_controller.api import meta
from registry_controller.api.cluster import Endpoint

CANARY: Final = "canary.9f2c41d7"  # with a dot and digits, as no field's name
SERVER: Final = "https://a.test:6443"
TOP: Final = "kubeconfig"
CLUSTER: Final = "clusters[0].cluster"
USER: Final = "users[0].user"
CREDENTIALS: Final = "; use token, or client-certificate-data with client-key-data"
FLATTEN: Final = "-data instead, which kubectl config view --flatten --minify --raw writes"
VERIFYING: Final = "; use certificate-authority-data"
IMPERSONATING: Final = "; the daemon uses the identity of the credentials"
PLAIN: Final = "is not a plain URL; it must be ASCII, without spaces, escapes, zone, query or fragment"
SPLIT: Final = "has no valid host and port; an IPv6 address needs brackets"
CHARACTERS: Final = "must be printable ASCII, without spaces and line breaks"
PATH: Final = "has a path with special characters; use letters, digits and ._~:@+- only"
QUOTES: Final = "is not a text; put it in quotes"
IN_SECRET: Final = "Secret {}: "


@dataclass(frozen=True, slots=True)
class Accepted:
    """The credentials that are read, and used for nothing but this server."""

    server: str = SERVER
    token: bool = True
    certificate: bool = False
    ca: bool = True
    tls_server_name: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The exact words: behind `Secret NAMESPACE/NAME: `, or what else `begins` (with the Secret's name put in)."""

    words: str
    begins: str = IN_SECRET

    @property
    def in_secret(self) -> bool:
        """Say whether the Secret is refused, and not what the Cluster says of its endpoint."""
        return bool(self.begins)


@dataclass(frozen=True, slots=True)
class Row:
    """One Secret (`data` decoded), with the Cluster's endpoint that goes with it."""

    name: str
    data: Mapping[str, bytes]
    expected: Accepted | Refused
    secret_type: str = meta.REGISTRY_SECRET_TYPE
    endpoint: Endpoint | None = None
    is_bomb: bool = False


def b64(data: str | bytes) -> str:
    """Encode as the API does."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _certificate(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, *, days: int, ca: bool) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    found = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
    found = found.not_valid_before(begin).not_valid_after(begin + datetime.timedelta(days=days))
    signed = found.add_extension(x509.BasicConstraints(ca, None), critical=True).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def _key_of_9000_bits() -> rsa.RSAPrivateKey:
    """Make what looks like an RSA key: to find primes of that size would take a minute, and nobody looks for them."""
    p, q, e = 2**4501 - 1, 2**4500 - 1, 65537
    numbers = rsa.RSAPrivateNumbers(p, q, 3, 3, 3, pow(q, -1, p), rsa.RSAPublicNumbers(e, p * q))
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def _altered(pem: bytes, old: bytes, new: bytes) -> bytes:
    """Change bytes of a certificate; its signature no longer fits, which nobody looks at when it is read."""
    der = x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
    assert old in der
    return f"-----BEGIN CERTIFICATE-----\n{b64(der.replace(old, new, 1))}\n-----END CERTIFICATE-----\n".encode()


_CA: Final = trustme.CA()
_LEAF: Final = _CA.issue_cert("client.test")
_OTHER: Final = ec.generate_private_key(ec.SECP256R1())
_LONG: Final = _key_of_9000_bits()
_SHORT: Final = rsa.generate_private_key(public_exponent=65537, key_size=1024)
CA_PEM: Final = _CA.cert_pem.bytes()
LEAF_PEM: Final = _LEAF.cert_chain_pems[0].bytes()
KEY_PEM: Final = _LEAF.private_key_pem.bytes()
EXPIRED_PEM: Final = _certificate(_OTHER, days=1, ca=True)
VERSION_6_PEM: Final = _altered(LEAF_PEM, b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05")
NO_UTF8_PEM: Final = _altered(CA_PEM, b"trustme", b"\xff\xff\xff\xff\xff\xff\xff")
PAIR: Final = {"client-certificate-data": b64(LEAF_PEM), "client-key-data": b64(KEY_PEM)}


def document(
    *,
    top: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make a good kubeconfig with CANARY as its token, then add to its parts."""
    body = {"server": SERVER, "certificate-authority-data": b64(CA_PEM), **(cluster or {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": body}],
        "users": [{"name": "u", "user": {"token": CANARY, **(user or {})}}],
        "contexts": [{"name": "c", "context": {"cluster": "a", "user": "u", **(context or {})}}],
        "current-context": "c",
        **(top or {}),
    }


def text(found: Mapping[str, Any]) -> str:
    """Write a kubeconfig in YAML."""
    return yaml.safe_dump(dict(found), width=10**9)


GOOD: Final = text(document())


def _row(name: str, content: str | bytes | Mapping[str, Any], expected: Accepted | Refused | str, **more: Any) -> Row:
    if isinstance(content, Mapping):
        content = text(content)
    raw = content.encode() if isinstance(content, str) else content
    return Row(name, {"kubeconfig": raw}, Refused(expected) if isinstance(expected, str) else expected, **more)


def _cluster(name: str, value: Any, words: str, *, row: str = "") -> Row:
    return _row(row or name, document(cluster={name: value}), f"{CLUSTER}.{name}: {words}")


def _user(name: str, value: Any, words: str, *, row: str = "") -> Row:
    return _row(row or name, document(user={name: value}), f"{USER}.{name}: {words}")


_EXEC: Final = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", CANARY]}

FORBIDDEN: Final = (
    _user("exec", _EXEC, f"is not allowed{CREDENTIALS}"),
    _user("exec", 0, f"is not allowed{CREDENTIALS}", row="exec that is a number"),
    _user("auth-provider", {"name": "gcp", "config": {"cmd-path": CANARY}}, f"is not allowed{CREDENTIALS}"),
    _user("tokenFile", f"/{CANARY}", "is not allowed; use token"),
    _user("client-certificate", f"/{CANARY}", f"is not allowed; use client-certificate{FLATTEN}"),
    _user("client-key", f"/{CANARY}", f"is not allowed; use client-key{FLATTEN}"),
    _user("username", "admin", f"is not allowed{CREDENTIALS}"),
    _user("password", CANARY, f"is not allowed{CREDENTIALS}"),
    _user("as", "system:admin", f"is not allowed{IMPERSONATING}"),
    _user("as-uid", "1", f"is not allowed{IMPERSONATING}"),
    _user("as-groups", ["system:masters"], f"is not allowed{IMPERSONATING}"),
    _user("as-user-extra", {"scopes": [CANARY]}, f"is not allowed{IMPERSONATING}"),
    _user("unknown", CANARY, "is not allowed", row="an unknown field of a user"),
    _user("Token", CANARY, "is not allowed", row="a field in another case"),
    _cluster("certificate-authority", f"/{CANARY}", f"is not allowed; use certificate-authority{FLATTEN}"),
    _cluster("proxy-url", f"http://u:{CANARY}@p.test", "is not allowed; a peer is reached directly"),
    _cluster("insecure-skip-tls-verify", True, f"is not allowed{VERIFYING}"),
    _cluster("insecure-skip-tls-verify", "true", f"is not allowed{VERIFYING}", row="insecure-skip-tls-verify as text"),
    _cluster("insecure-skip-tls-verify", 1, f"is not allowed{VERIFYING}", row="insecure-skip-tls-verify as a number"),
    _cluster("disable-compression", True, "is not allowed"),
    _cluster("unknown", CANARY, "is not allowed", row="an unknown field of a cluster"),
    _cluster("server", "http://a.test", "must be an https URL", row="plain HTTP"),
    _row("an unknown field of a context", document(context={"unknown": CANARY}),
         "contexts[0].context.unknown: is not allowed"),
    _row("an unknown field of the file", document(top={"unknown": CANARY}), "kubeconfig.unknown: is not allowed"),
    _row("an unknown field of an entry", document(top={"users": [{"name": "u", "exec": _EXEC}]}),
         f"users[0].exec: is not allowed{CREDENTIALS}"),
    _row("a field whose name may be a secret", document(user={CANARY: 1}), f"{USER}: a field in it: is not allowed"),
    _row("several in one user", document(user={"exec": _EXEC, "as": "x", "password": CANARY}),
         f"{USER}.as: is not allowed{IMPERSONATING}"),
    _row("several in user and cluster",
         document(user={"exec": _EXEC}, cluster={"proxy-url": CANARY, "server": "http://a.test"}),
         f"{CLUSTER}.proxy-url: is not allowed; a peer is reached directly"),
    _row("exec in a user that is not used",
         document(top={"users": [{"name": "u", "user": {"token": CANARY}}, {"name": "v", "user": {"exec": _EXEC}}]}),
         f"users[1].user.exec: is not allowed{CREDENTIALS}"),
    _row("proxy-url in a cluster that is not used",
         document(top={"clusters": [{"name": "a", "cluster": {"server": SERVER}},
                                    {"name": "b", "cluster": {"proxy-url": CANARY}}]}),
         "clusters[1].cluster.proxy-url: is not allowed; a peer is reached directly"),
    _row("an unknown field in a context that is not used",
         document(top={"contexts": [{"name": "c", "context": {"cluster": "a", "user": "u"}},
                                    {"name": "d", "context": {"unknown": CANARY}}]}),
         "contexts[1].context.unknown: is not allowed"),
)  # fmt: skip

_BOMB: Final = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
_TOKEN_LINE: Final = f"token: {CANARY}"
_TOKEN_AT: Final = GOOD[: GOOD.index(_TOKEN_LINE)].count("\n") + 1
_KIND_AT: Final = GOOD[: GOOD.index("kind:")].count("\n") + 1
_END: Final = GOOD.count("\n") + 1

YAML: Final = (
    _row("an anchor", GOOD.replace("kind: Config", "kind: &k Config"),
         f"{TOP}: uses a YAML anchor or alias (line {_KIND_AT}), which is not allowed"),
    _row("an alias", f"{GOOD}preferences: *nobody\n",
         f"{TOP}: uses a YAML anchor or alias (line {_END}), which is not allowed"),
    _row("a merge key", f"{GOOD}<<: {{preferences: {{a: {CANARY}}}}}\n",
         f"{TOP}: uses a YAML merge key (line {_END}), which is not allowed"),
    _row("a merge key in quotes", document(user={"<<": {"exec": _EXEC}}), f"{USER}: a field in it: is not allowed"),
    _row("the same key twice", f"{GOOD}kind: Config\n", f"{TOP}: has the same key twice (line {_END})"),
    _row("two tokens", GOOD.replace(_TOKEN_LINE, f"{_TOKEN_LINE}\n    {_TOKEN_LINE}"),
         f"{TOP}: has the same key twice (line {_TOKEN_AT + 1})"),
    _row("a tag that would run a program",
         GOOD.replace(CANARY, f"!!python/object/apply:os.system ['touch {CANARY}']"),
         f"{TOP}: uses a YAML tag (line {_TOKEN_AT}), which is not allowed"),
    _row("a tag that would import a module", f"!!python/module:antigravity {CANARY}",
         f"{TOP}: uses a YAML tag (line 1), which is not allowed"),
    _row("a tag of its own", f"!mine {{token: {CANARY}}}",
         f"{TOP}: uses a YAML tag (line 1), which is not allowed"),
    _row("a binary", GOOD.replace(CANARY, f"!!binary {b64(CANARY)} # {CANARY}"),
         f"{TOP}: uses a YAML tag (line {_TOKEN_AT}), which is not allowed"),
    _row("two documents", f"{GOOD}---\n{GOOD}", f"{TOP}: is more than one YAML document (line {_END})"),
    _row("a bomb of aliases", f"{_BOMB}# {CANARY}\n",
         f"{TOP}: uses a YAML anchor or alias (line 1), which is not allowed", is_bomb=True),
    _row("lists in lists", f"# {CANARY}\na: {'[' * 100_000}", f"{TOP}: is nested more than 20 deep (line 2)",
         is_bomb=True),
    _row("mappings in mappings", f"# {CANARY}\n" + "".join(f"{' ' * depth}a:\n" for depth in range(500)),
         f"{TOP}: is nested more than 20 deep (line 22)", is_bomb=True),
    _row("200 KiB of entries", f"# {CANARY}\na: [{'x,' * 100_000}]", f"{TOP}: has more than 5000 YAML nodes",
         is_bomb=True),
    _row("300 KiB", f"# {CANARY}\na: {'x' * 300_000}", f"{TOP}: is larger than 256 KiB", is_bomb=True),
    _row("2 MiB", f"# {CANARY}\na: ".ljust(2 * 1024 * 1024, "x"),
         "data.kubeconfig: is larger than 2 MiB of base64", is_bomb=True),
    _row("10 MiB", f"# {CANARY}\na: ".ljust(10 * 1024 * 1024, "x"), "an object that is too large", is_bomb=True),
    _row("a number of 200 KB", f"# {CANARY}\ntop: {'1:' * 100_000}1", "kubeconfig.top: is not allowed", is_bomb=True),
    _row("a key of 100 KB", f"# {CANARY}\n? {'x' * 100_000}\n: 1\n", "kubeconfig: a field in it: is not allowed",
         is_bomb=True),
    _row("open brackets in a token", GOOD.replace(CANARY, f"'{CANARY}' {'{' * 10}"),
         f"{TOP}: is not valid YAML (line {_TOKEN_AT})"),
    _row("a NUL", GOOD.replace(CANARY, f"{CANARY}\0"), f"{TOP}: is not valid YAML"),
    _row("a byte order mark", f"\ufeff{GOOD}", Accepted()),
    _row("UTF-16", GOOD.encode("utf-16"), "data.kubeconfig: is not UTF-8"),
    _row("UTF-16 without a mark", GOOD.encode("utf-16-le"), f"{TOP}: is not valid YAML"),
    _row("Latin-1", f"# é {CANARY}\n{GOOD}".encode("latin-1"), "data.kubeconfig: is not UTF-8"),
    _row("line breaks of Windows", GOOD.replace("\n", "\r\n"), Accepted()),
    _row("tabs", f"users:\n\t- {CANARY}\n", f"{TOP}: is not valid YAML (line 2)"),
    _row("a template", f"token: {{{{ {CANARY} }}}}\n", f"{TOP}: has a key that is not text (line 1); put it in quotes"),
    _row("an open list", f"a: [{CANARY}\n", f"{TOP}: is not valid YAML (line 2)"),
    _row("an unknown YAML version", f"%YAML 9.9\n---\n{GOOD}", f"{TOP}: is not valid YAML (line 1)"),
    _row("JSON", yaml.safe_dump(document(), default_flow_style=True), Accepted()),
    _row("only a comment", f"# {CANARY}\n", f"{TOP}: is not a mapping"),
    _row("null", f"~ # {CANARY}\n", f"{TOP}: is not a mapping"),
    _row("a list", f"- {CANARY}\n", f"{TOP}: is not a mapping"),
    _row("a number", f"42 # {CANARY}\n", f"{TOP}: is not a mapping"),
    _row("a text", CANARY, f"{TOP}: is not a mapping"),
    _row("a date that is none", f"{GOOD}preferences: 2020-99-99\n", Accepted()),
    _row("a key that is a number", f"{GOOD}1: {CANARY}\n",
         f"{TOP}: has a key that is not text (line {_END}); put it in quotes"),
    _row("a key that is true", GOOD.replace(_TOKEN_LINE, f"{_TOKEN_LINE}\n    true: {CANARY}"),
         f"{TOP}: has a key that is not text (line {_TOKEN_AT + 1}); put it in quotes"),
    _row("a key that is null", f"{GOOD}~: {CANARY}\n",
         f"{TOP}: has a key that is not text (line {_END}); put it in quotes"),
    _row("a key that is a list", f"{GOOD}? [{CANARY}]\n: 1\n",
         f"{TOP}: has a key that is not text (line {_END}); put it in quotes"),
    _row("another kind", document(top={"kind": CANARY}), "apiVersion, kind: must be v1 and Config"),
    _row("another version", document(top={"apiVersion": "v2"}), "apiVersion, kind: must be v1 and Config"),
    _row("neither version nor kind", document(top={"apiVersion": None, "kind": None}), Accepted()),
)  # fmt: skip

SHAPES: Final = (
    _row("no current-context", document(top={"current-context": None}),
         "current-context: is missing; name one of the contexts"),
    _row("another current-context", document(top={"current-context": CANARY}),
         "current-context: names no context; name one of the contexts"),
    _row("a current-context that is a number", document(top={"current-context": 5}), f"current-context: {QUOTES}"),
    _row("a context naming no cluster", document(context={"cluster": CANARY}),
         "contexts[0].context.cluster: names no cluster of the kubeconfig"),
    _row("a context naming no user", document(context={"user": CANARY}),
         "contexts[0].context.user: names no user of the kubeconfig"),
    _row("a context naming nobody", document(top={"contexts": [{"name": "c", "context": {}}]}),
         "contexts[0].context.cluster: names no cluster of the kubeconfig"),
    _row("a context that is not used naming nobody",
         document(top={"contexts": [{"name": "c", "context": {"cluster": "a", "user": "u"}}, {"name": "d"}]}),
         Accepted()),
    _row("a context with a namespace", document(context={"namespace": "n"}), Accepted()),
    _row("preferences and extensions", document(top={"preferences": {"colors": True}, "extensions": [{"a": 1}]}),
         Accepted()),
    _row("verifying", document(cluster={"insecure-skip-tls-verify": False}), Accepted()),
    _row("users that are a mapping", document(top={"users": {"u": {"token": CANARY}}}), "users: is not a list"),
    _row("users that are a text", document(top={"users": CANARY}), "users: is not a list"),
    _row("a user that is a text", document(top={"users": [CANARY]}), "users[0]: is not a mapping"),
    _row("a user without a name", document(top={"users": [{"user": {"token": CANARY}}]}),
         "users[0].name: is missing, or another entry has the same name"),
    _row("two users of one name",
         document(top={"users": [{"name": "u", "user": {"token": CANARY}}, {"name": "u", "user": {"token": "b"}}]}),
         "users[1].name: is missing, or another entry has the same name"),
    _row("a name that is true", document(top={"users": [{"name": True, "user": {"token": CANARY}}]}),
         f"users[0].name: {QUOTES}"),
    _row("credentials that are a list", document(top={"users": [{"name": "u", "user": [CANARY]}]}),
         f"{USER}: is not a mapping"),
)  # fmt: skip


def _address(row: str, server: Any, expected: Accepted | str) -> Row:
    words = expected if isinstance(expected, Accepted) else Refused(f"{CLUSTER}.server: {expected}")
    return _row(row, document(cluster={"server": server}), words)


SERVERS: Final = (
    _address("no server", None, PLAIN),
    _address("an empty server", "", PLAIN),
    _address("a server that is a number", 6443, QUOTES),
    _address("a user in the server", f"https://{CANARY}@a.test",
             "must not hold a user or password; use token or a client certificate"),
    _address("a password in the server", f"https://u:{CANARY}@a.test",
             "must not hold a user or password; use token or a client certificate"),
    _address("a password before an IPv6 address", f"https://u:{CANARY}@[::1]",
             "must not hold a user or password; use token or a client certificate"),
    _address("a path", "https://a.test/k8s/clusters/c-1", Accepted("https://a.test/k8s/clusters/c-1")),
    _address("a trailing slash", "https://a.test:6443/", Accepted()),
    _address("a path that climbs", f"https://a.test/x/../{CANARY}", PATH),
    _address("a path with an escape", f"https://a.test/%2e%2e/{CANARY}", PLAIN),
    _address("a query", f"https://a.test/?token={CANARY}", PLAIN),
    _address("a fragment", f"https://a.test/#{CANARY}", PLAIN),
    _address("IPv6", "https://[2001:DB8::1]:6443", Accepted("https://[2001:db8::1]:6443")),
    _address("IPv6 without brackets", "https://2001:db8::1", SPLIT),
    _address("IPv6 with a zone", "https://[fe80::1%25eth0]:6443", PLAIN),
    _address("a bracket that is not closed", "https://[::1", SPLIT),
    _address("something behind a bracket", f"https://[::1]{CANARY}:6443", SPLIT),
    _address("brackets around a name", "https://[a.test]", SPLIT),
    _address("brackets around no address", "https://[2001:db8]", SPLIT),
    _address("port 0", "https://a.test:0", "has no valid port; give 1 to 65535 or none"),
    _address("port 99999", "https://a.test:99999", SPLIT),
    _address("an empty port", "https://a.test:", "has no valid port; give 1 to 65535 or none"),
    _address("a port that is a name", f"https://a.test:{CANARY}", SPLIT),
    _address("a name that is not ASCII", "https://bücher.test", PLAIN),
    _address("a name in punycode", "https://xn--bcher-kva.test", Accepted("https://xn--bcher-kva.test")),
    _address("a space", f"https://a.test/ {CANARY}", PLAIN),
    _address("a line break", f"https://a.test\r\nHost: {CANARY}", PLAIN),
    _address("a tab", "https://a\t.test", PLAIN),
    _address("a backslash", f"https://a.test\\@{CANARY}", PLAIN),
    _address("upper case", "HTTPS://A.TEST:6443", Accepted()),
    _address("an empty host", f"https:///{CANARY}", "has no host; write https://HOST:PORT"),
    _address("no scheme", "a.test", "must be an https URL"),
    _address("a name and port without a scheme", "a.test:6443", "must be an https URL"),
    _address("a file as the server", f"file:///{CANARY}", "must be an https URL"),
    _address("a socket as the server", f"unix:///{CANARY}", "must be an https URL"),
    _address("an empty label", "https://a..test", "has no valid host; write https://HOST:PORT"),
    _address("a long host", f"https://{'a' * 254}", "has no valid host; write https://HOST:PORT"),
    _address("a long server", f"https://a.test/{'a' * 1024}", PLAIN),
    _address("loopback", "https://127.0.0.1:6443", Accepted("https://127.0.0.1:6443")),
    _address("loopback by name", "https://localhost:6443", Accepted("https://localhost:6443")),
    _address("link-local", "https://169.254.169.254", Accepted("https://169.254.169.254")),
    _row("a server that is not used",
         document(top={"clusters": [{"name": "a", "cluster": {"server": SERVER}},
                                    {"name": "b", "cluster": {"server": "http://b.test"}}]}),
         Accepted(ca=False)),
    _row("a TLS server name", document(cluster={"tls-server-name": "b.test"}), Accepted(tls_server_name="b.test")),
    _row("a TLS server name with a line break", document(cluster={"tls-server-name": f"b\n{CANARY}"}),
         f"{CLUSTER}.tls-server-name: is not a host name"),
    _row("an endpoint", document(cluster={"tls-server-name": "b.test"}), Accepted("https://b.test:1"),
         endpoint=Endpoint("", "b.test:1", "")),
    _row("an endpoint with a password", GOOD,
         Refused("spec.kubernetesApiEndpoints.serverAddress: must not hold a user or password; use token or a client "
                 "certificate", begins=""),
         endpoint=Endpoint("", f"u:{CANARY}@b.test", "")),
    _row("an endpoint with plain HTTP", GOOD,
         Refused("spec.kubernetesApiEndpoints.serverAddress: must be an https URL", begins=""),
         endpoint=Endpoint("", "http://b.test", "")),
    _row("an endpoint with a zone", GOOD,
         Refused(f"spec.kubernetesApiEndpoints.serverAddress: {PLAIN}", begins=""),
         endpoint=Endpoint("", "fe80::1%eth0", "")),
    _row("an endpoint whose CA is a key", GOOD,
         Refused("spec.kubernetesApiEndpoints.caBundle: holds no readable certificate; it must be PEM",
                 begins=""),
         endpoint=Endpoint("", "", b64(KEY_PEM))),
)  # fmt: skip


def _ca(row: str, value: str, expected: Accepted | str) -> Row:
    words = expected if isinstance(expected, Accepted) else Refused(f"{CLUSTER}.certificate-authority-data: {expected}")
    return _row(row, document(cluster={"certificate-authority-data": value}), words)


def _pair(row: str, certificate: bytes | str, key: bytes | str, words: str) -> Row:
    """Offer a certificate and a key beside the token; a text is not encoded."""
    data = [part if isinstance(part, str) else b64(part) for part in (certificate, key)]
    pair = {"client-certificate-data": data[0], "client-key-data": data[1]}
    return _row(row, document(user=pair), f"{USER}{words}")


def _token(row: str, token: Any, words: str) -> Row:
    return _row(row, f"# {CANARY}\n{text(document(user={'token': token}))}", f"{USER}{words}")


_UNREADABLE_KEY: Final = ".client-key-data: holds no readable, unencrypted key; it must be PEM"
_STRANGE_KEY: Final = ".client-key-data: does not belong to client-certificate-data"
_ONE: Final = ": has one of client-certificate-data and client-key-data; both are needed"

MATERIAL: Final = (
    _ca("no CA", "", Accepted(ca=False)),
    _ca("a CA that is no base64", f"%{CANARY}", "is not base64; encode it again"),
    _ca("a CA that is garbage", b64(CANARY), "holds no readable certificate; it must be PEM"),
    _ca("a CA that is a key", b64(KEY_PEM), "holds no readable certificate; it must be PEM"),
    _ca("a CA that is DER", b64(x509.load_pem_x509_certificate(CA_PEM).public_bytes(serialization.Encoding.DER)),
        "holds no readable certificate; it must be PEM"),
    _ca("a CA of another version of X.509", b64(VERSION_6_PEM), "holds no readable certificate; it must be PEM"),
    _ca("a CA that OpenSSL refuses", b64(NO_UTF8_PEM), "OpenSSL refuses a certificate in it"),
    _ca("a CA beside a key", b64(KEY_PEM + CA_PEM), Accepted()),
    _ca("an expired CA", b64(EXPIRED_PEM), Accepted()),
    _ca("an end entity as the CA", b64(LEAF_PEM), Accepted()),
    _row("a client certificate", document(user={"token": None, **PAIR}), Accepted(token=False, certificate=True)),
    _row("a client certificate and a token", document(user=PAIR), Accepted(certificate=True)),
    _pair("another key", LEAF_PEM, _pem(_OTHER), _STRANGE_KEY),
    _pair("an encrypted key", LEAF_PEM, _pem(_OTHER, password=CANARY.encode()), _UNREADABLE_KEY),
    _pair("a key that is garbage", LEAF_PEM, CANARY.encode(), _UNREADABLE_KEY),
    _pair("a key that is no base64", LEAF_PEM, f"%{CANARY}", ".client-key-data: is not base64; encode it again"),
    _pair("a key that is a certificate", LEAF_PEM, LEAF_PEM, _UNREADABLE_KEY),
    _pair("a key of 20 KB", LEAF_PEM, KEY_PEM.ljust(20_000), ".client-key-data: is larger than 16 KiB"),
    _pair("a certificate that is garbage", CANARY.encode(), KEY_PEM,
          ".client-certificate-data: holds no readable certificate; it must be PEM"),
    _pair("a certificate of another version of X.509", VERSION_6_PEM, KEY_PEM,
          ".client-certificate-data: holds no readable certificate; it must be PEM"),
    _pair("an RSA key of 1024 bits", _certificate(_SHORT, days=1, ca=False), _pem(_SHORT),
          ".client-certificate-data: OpenSSL refuses it, or its client-key-data (ee key too small)"),
    _pair("an RSA key of 9000 bits", _certificate(_LONG, days=1, ca=False), _pem(_LONG),
          ".client-key-data: is an RSA key of more than 8192 bits"),
    _pair("a certificate without its key", LEAF_PEM, "", _ONE),
    _pair("a key without its certificate", "", KEY_PEM, _ONE),
    _token("a token with a line break", f"{CANARY}\r\nX-Evil: 1", f".token: {CHARACTERS}"),
    _token("a token that ends in a line break", f"{CANARY}\n", f".token: {CHARACTERS}"),
    _token("a token with a NUL", f"{CANARY}\0", f".token: {CHARACTERS}"),
    _token("a token that is not ASCII", f"{CANARY}é", f".token: {CHARACTERS}"),
    _token("a token with a space", f"Bearer {CANARY}", f".token: {CHARACTERS}"),
    _token("an empty token", "", ": has no credentials; a token or a client certificate is needed"),
    _token("a token of null", None, ": has no credentials; a token or a client certificate is needed"),
    _token("a token that is a number", 12345, f".token: {QUOTES}"),
    _token("a token that is true", True, f".token: {QUOTES}"),
    _token("a token that is a list", [CANARY], f".token: {QUOTES}"),
    _token("a token of 16 KiB and one", CANARY.ljust(16 * 1024 + 1, "x"), ".token: is longer than 16384 characters"),
    _row("a token of 16 KiB", document(user={"token": "x" * 16 * 1024}), Accepted()),
)  # fmt: skip

_BAD: Final = text(document(user={"exec": _EXEC})).encode()
_NOTHING: Final = Refused("data.kubeconfig: is missing")
_NONE_OF_THAT_TYPE: Final = Refused(
    f"of type {meta.REGISTRY_SECRET_TYPE} does not exist; it comes through any member that can be read, and without "
    "one by a new swap",
    begins="Secret {} ",
)

SECRETS: Final = (
    Row("key kubeconfig", {"kubeconfig": GOOD.encode()}, Accepted()),
    Row("key value", {"value": GOOD.encode()}, Accepted()),
    Row("key Config", {"Config": GOOD.encode()}, Accepted()),
    Row("kubeconfig before value", {"value": _BAD, "Config": _BAD, "kubeconfig": GOOD.encode()}, Accepted()),
    Row("value before Config", {"Config": _BAD, "value": GOOD.encode()}, Accepted()),
    Row("an empty kubeconfig before value", {"kubeconfig": b"", "value": GOOD.encode()}, Accepted()),
    Row("a bad kubeconfig before a good value", {"kubeconfig": _BAD, "value": GOOD.encode()},
        Refused(f"{USER}.exec: is not allowed{CREDENTIALS}")),
    Row("an empty kubeconfig", {"kubeconfig": b"", "other": CANARY.encode()}, _NOTHING),
    Row("a key in another case", {"Kubeconfig": GOOD.encode()}, _NOTHING),
    Row("a token beside it", {"token": CANARY.encode(), "ca.crt": CA_PEM}, _NOTHING),
    Row("another type", {"kubeconfig": GOOD.encode()}, _NONE_OF_THAT_TYPE, secret_type="Opaque"),
    Row("no type", {"kubeconfig": GOOD.encode()}, _NONE_OF_THAT_TYPE, secret_type=""),
)  # fmt: skip

ROWS: Final = (*FORBIDDEN, *YAML, *SHAPES, *SERVERS, *MATERIAL, *SECRETS)


def markdown() -> str:
    """Spell the table for the docs, one row a row."""
    lines = ["| What the Secret holds | What becomes of it |", "|---|---|"]
    for row in ROWS:
        if isinstance(row.expected, Refused):
            begins = row.expected.begins.format("NAMESPACE/NAME") if row.expected.begins != IN_SECRET else ""
            words = f"`{begins}{row.expected.words}`"
        else:
            words = f"is read at {row.expected.server}, with a {'token' if row.expected.token else 'certificate'}"
        lines.append(f"| {row.name} | {words} |".replace("\n", " "))
    return "\n".join(lines) + "\n"
