"""OPTIONS: every option of the daemon, read once at the start and frozen.

One table, `OPTIONS`: the fields of `Settings`, the environment names, the flags, `--dump-config` and the tables of
the docs are readings of it. A flag beats the environment; a variable that is set and empty is a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final

from registry_controller.api.errors import InvalidOption
from registry_controller.api.meta import GroupKind

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})*")
_KIND: Final = re.compile(rf"(?P<kind>[A-Z][A-Za-z0-9]{{0,62}}|\*(?=\.))(\.(?P<group>{_SUBDOMAIN.pattern}))?")
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"", "0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens. An empty host is every address of the machine; port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `parse` raises ValueError with what the value must be; `unit` is what a plain number counts."""

    environment: str
    default: str
    parse: Callable[[str], object]
    form: str
    help: str
    unit: str = ""

    @property
    def field(self) -> str:
        """The field of Settings."""
        return self.environment.lower()

    @property
    def flag(self) -> str:
        """The flag on the command line."""
        return "--" + self.field.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Ignored:
    """An option of the original that is accepted and has no effect. `environment` may be empty."""

    environment: str
    flag: str

    @property
    def field(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")


def _text(value: str) -> str:
    return value


def _flag(value: str) -> bool:
    if value in _TRUE:
        return True
    if value in _FALSE:  # the original, too, reads an empty one as false
        return False
    raise ValueError("must be true or false")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("must be the name of a namespace: lower case letters, digits and dashes, at most 63")
    return value


def _object_name(value: str) -> str:
    if len(value) > 253 or not _SUBDOMAIN.fullmatch(value):
        raise ValueError("must be the name of an object: lower case letters, digits, dashes and dots")
    return value


def _object_name_or_none(value: str) -> str:
    return _object_name(value) if value else value


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and len(value) < 10 and low <= int(value) <= high):
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(value)

    return parse


def _none_or_whole(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        try:
            return 0 if value == "0" else _whole(low, high)(value)
        except ValueError as error:
            raise ValueError(f"{error}, or 0") from None

    return parse


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError("must be " + " or ".join(allowed))
        return value

    return parse


def _items(value: str) -> list[str]:
    return list(dict.fromkeys(item for part in value.split(",") if (item := part.strip())))


def _names(value: str) -> tuple[str, ...]:
    return tuple(_name(item) for item in _items(value))


def _kinds(value: str) -> tuple[GroupKind, ...]:
    found = []
    for item in _items(value):
        match = _KIND.fullmatch(item)
        if match is None:
            raise ValueError(
                f"{item!r} is no kind: write Secret, Role.rbac.authorization.k8s.io, or *.rbac.authorization.k8s.io "
                "for all kinds of a group, with commas between them"
            )
        found.append(GroupKind(match["group"] or "", match["kind"]))
    return tuple(found)


def parse_address(value: str) -> Address | None:
    """Read `:8080`, `127.0.0.1:0` or `[::1]:80`; None, nothing is served, for `0` and for an empty value."""
    if value in ("", "0"):
        return None
    host, colon, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""  # an IPv6 address without brackets: where its port begins cannot be told
    if not colon or not re.fullmatch(r"[A-Za-z0-9.:_%-]*", host):
        raise ValueError("must be host:port, as :8080, 127.0.0.1:8080 or [::1]:8080; 0 serves nothing")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536):
        raise ValueError("must end in a port from 0 to 65535")
    return Address(host, int(port))


OPTIONS: Final = (
    Option("NAMESPACE", "cluster-registry", _name, "name", "Namespace of the daemon and of the Secrets it publishes."),
    Option(
        "PROVISION_LOCAL_CLUSTER", "", _object_name_or_none, "name",
        "Make the Cluster object of this cluster, under this name, when there is none. Empty: you make it.",
    ),
    Option(
        "MANAGE_LOCAL_CLUSTER_SECRET", "true", _flag, "true|false",
        "Keep the Secret that the local Cluster names filled with a kubeconfig for the reader ServiceAccount.",
    ),
    Option(
        "READER_SERVICE_ACCOUNT_NAME", "cluster-registry-controller-reader", _object_name, "name",
        "ServiceAccount with whose token the other clusters read here.",
    ),
    Option(
        "READER_TOKEN_EXPIRATION_SECONDS", "0", _none_or_whole(600, 999_999_999), "number",
        "How long the token of the reader is good; it is renewed in time. 0: until its Secret is deleted.", "s",
    ),
    Option(
        "NETWORK_NAME", "default", _text, "text",
        "Network that this cluster is in: chooses among the endpoints of the other clusters.",
    ),
    Option(
        "APISERVER_ENDPOINT_ADDRESS", "", _text, "host[:port] or URL",
        "Address of this API server for the other clusters. Empty: what the API server says of itself.",
    ),
    Option(
        "CORE_RESOURCES_SOURCE_ENABLED", "true", _flag, "true|false",
        "Let the other clusters learn of Clusters, their Secrets and rules from this one.",
    ),
    Option("METRICS_ADDR", ":8080", parse_address, "host:port", "Where /metrics is served. Empty or 0: nowhere."),
    Option(
        "HEALTH_ADDR", ":8090", parse_address, "host:port",
        "Where /livez, /readyz and /healthz are served. Empty or 0: nowhere.",
    ),
    Option("LOG_FORMAT", "json", _choice("json", "console"), "json|console", "Form of the log lines."),
    Option(
        "LOG_VERBOSITY", "0", _whole(0, 127), "number", "How much is logged: 0 for changes, more for details.", "level"
    ),
    Option(
        "CLUSTER_VALIDATOR_WEBHOOK_ENABLED", "false", _flag, "true|false",
        "Serve the webhook that refuses a second Cluster object for this cluster.",
    ),
    Option(
        "CLUSTER_VALIDATOR_WEBHOOK_NAME", "cluster-validator-webhook", _object_name, "name",
        "Name of the webhook's ValidatingWebhookConfiguration, which the chart makes.",
    ),
    Option(
        "CLUSTER_VALIDATOR_WEBHOOK_HOST", "", _text, "host",
        "Address of the machine at which the webhook is served. Empty: every one.",
    ),
    Option("CLUSTER_VALIDATOR_WEBHOOK_PORT", "9443", _whole(0, 65535), "port", "Port of the webhook."),
    Option(
        "CLUSTER_VALIDATOR_WEBHOOK_CERTIFICATE_DIRECTORY", "/tmp/webhooks/clusterValidator/certificates",  # noqa: S108
        _text, "path",
        "Directory in which the daemon keeps the webhook's key and certificate, which it makes itself, over restarts.",
    ),
    Option(
        "DELETION_LIMIT_PERCENT", "50", _whole(0, 100), "number",
        "How many of a rule's copies from one owner may be deleted within five minutes; 50 always may. 0: all.", "%",
    ),
    Option(
        "SYNCED_RULES_ENABLED", "true", _flag, "true|false",
        "Let rules act here that came from other clusters. With false they do nothing, and what they made stays.",
    ),
    Option(
        "SYNCED_RULES_KINDS", "", _kinds, "kinds",
        "Kinds that rules from other clusters may read and write here, as `Secret,Deployment.apps,*.example.com`. "
        "Empty: all.",
    ),
    Option(
        "SYNCED_RULES_NAMESPACES", "", _names, "names",
        "Namespaces into which rules from other clusters may write; objects in none then need their kind to be listed. "
        "Empty: all.",
    ),
    Option(
        "CLOSED_KINDS", "", _kinds, "kinds",
        "Kinds of which no rule, whoever made it, writes copies here; the registry's own kinds and Secrets apart.",
    ),
    Option(
        "CLOSED_NAMESPACES", "", _names, "names",
        "Namespaces into which no rule, whoever made it, writes copies; not the daemon's own one.",
    ),
    Option("WORKERS", "32", _whole(1, 1024), "number", "How many objects are written at a time.", "objects"),
)  # fmt: skip

IGNORED: Final = (
    Ignored("LEADER_ELECTION_ENABLED", "--leader-election-enabled"),
    Ignored("LEADER_ELECTION_NAME", "--leader-election-name"),
    Ignored("LEADER_ELECTION_NAMESPACE", "--leader-election-namespace"),
    Ignored("", "--enable-leader-election"),
    Ignored("", "--devel-mode"),
)
IGNORED_PREFIXES: Final = ("CLUSTERCONTROLLER_", "SYNCCONTROLLER_")
"""Environment names (and, in lower case with dashes, flags) that begin so are accepted without effect, too."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options as the daemon uses them. `ignored` names what was given and has no effect."""

    namespace: str
    provision_local_cluster: str
    manage_local_cluster_secret: bool
    reader_service_account_name: str
    reader_token_expiration_seconds: int
    network_name: str
    apiserver_endpoint_address: str
    core_resources_source_enabled: bool
    metrics_addr: Address | None
    health_addr: Address | None
    log_format: str
    log_verbosity: int
    cluster_validator_webhook_enabled: bool
    cluster_validator_webhook_name: str
    cluster_validator_webhook_host: str
    cluster_validator_webhook_port: int
    cluster_validator_webhook_certificate_directory: str
    deletion_limit_percent: int = 50
    synced_rules_enabled: bool = True
    synced_rules_kinds: tuple[GroupKind, ...] = ()
    synced_rules_namespaces: tuple[str, ...] = ()
    closed_kinds: tuple[GroupKind, ...] = ()
    closed_namespaces: tuple[str, ...] = ()
    workers: int = 32
    ignored: tuple[str, ...] = ()

    def remarks(self) -> tuple[str, ...]:
        """List what is to be said once at the start: options that do nothing."""
        return tuple(f"{name} has no effect and is ignored" for name in self.ignored)

    def dump(self) -> dict[str, str | int | bool]:
        """Spell every option under its environment name, as it would be given. There is no secret among them."""
        values = {option.environment: getattr(self, option.field) for option in OPTIONS}
        return {name: _spelled(value) for name, value in values.items()}


def _spelled(value: object) -> str | int | bool:
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return value if isinstance(value, str | int) else "" if value is None else str(value)


def load(environ: Mapping[str, str], flags: Mapping[str, str | None]) -> Settings:
    """Read the settings; raise InvalidOption naming the option.

    `flags` is keyed by field name (`metrics_addr`); None is a flag that was not given.
    """
    values: dict[str, object] = {}
    for option in OPTIONS:
        given = flags.get(option.field)
        text = given if given is not None else environ.get(option.environment, option.default)
        try:
            values[option.field] = option.parse(text)
        except ValueError as error:
            raise InvalidOption(f"{option.environment} ({option.flag}): {error}") from None
    if values["namespace"] in values["closed_namespaces"]:  # type: ignore[operator]
        raise InvalidOption(
            f"CLOSED_NAMESPACES (--closed-namespaces): must not name {values['namespace']}, where the registry's own "
            "Secrets are"
        )
    return Settings(**values, ignored=_ignored(environ, flags))  # type: ignore[arg-type]


def _ignored(environ: Mapping[str, str], flags: Mapping[str, str | None]) -> tuple[str, ...]:
    found = [option.environment for option in IGNORED if option.environment in environ]
    found += [option.flag for option in IGNORED if flags.get(option.field) is not None]
    found += sorted(name for name in environ if name.startswith(IGNORED_PREFIXES))
    lower = tuple(prefix.lower() for prefix in IGNORED_PREFIXES)
    found += sorted("--" + name.replace("_", "-") for name in flags if name.startswith(lower))
    return tuple(found)


def markdown() -> str:
    """Spell the table of options for the docs, one row an option."""
    rows = ["| Environment | Flag | Default | Value | Meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default else "empty"
        form = option.form.replace("|", " or ")
        rows.append(f"| `{option.environment}` | `{option.flag}` | {default} | {form} | {option.help} |")
    return "\n".join(rows) + "\n"


# The table and the fields are two spellings of one list; the daemon does not start where they differ.
if [*(option.field for option in OPTIONS), "ignored"] != [field.name for field in fields(Settings)]:
    raise AssertionError("OPTIONS and Settings differ")
