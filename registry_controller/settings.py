"""Every option: default, unit, environment name.

The fields of `Settings`, the environment names, the flags, `--dump-config` and the tables in the docs come from one
table, `OPTIONS`. They are read once at the start, and do not change. A flag takes precedence over the environment. A
variable that is set but empty is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final

from registry_controller.api import optiontext
from registry_controller.api.errors import InvalidOption
from registry_controller.api.meta import GroupKind
from registry_controller.api.optiontext import Address, ObjectPattern


@dataclass(frozen=True, slots=True)
class Option:
    """An option. `parse` raises ValueError with a description of a valid value; `unit` is the unit of a number."""

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
    """An option that is accepted and has no effect. `environment` may be empty."""

    environment: str
    flag: str

    @property
    def field(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")


OPTIONS: Final = (
    Option(
        "NAMESPACE", "cluster-registry", optiontext.namespace, "name",
        "Namespace of the daemon and of the Secrets that it publishes.",
    ),
    Option("POD_NAME", "", optiontext.object_name_or_none, "name", "Name of the Pod that runs this daemon."),
    Option(
        "POD_SELECTOR", "", optiontext.text, "labels",
        "Label selector of all Pods that run this cluster's daemon; they share the writing of status. Empty: one Pod.",
    ),
    Option(
        "PROVISION_LOCAL_CLUSTER", "", optiontext.object_name_or_none, "name",
        "Name with which the daemon creates a missing Cluster object of this cluster. Empty: you create it.",
    ),
    Option(
        "MANAGE_LOCAL_CLUSTER_SECRET", "true", optiontext.flag, "true|false",
        "Keep a kubeconfig for the reader ServiceAccount in the Secret to which the local Cluster refers.",
    ),
    Option(
        "READER_SERVICE_ACCOUNT_NAME", "cluster-registry-controller-reader", optiontext.object_name, "name",
        "Name of the reader ServiceAccount; the other clusters read this cluster with its token.",
    ),
    Option(
        "MULTICLUSTER_RUNTIME_LABEL", "false", optiontext.flag, "true|false",
        "Give the published Secret the label by which the kubeconfig provider of multicluster-runtime finds it, here "
        "and in the other clusters.",
    ),
    Option(
        "CLUSTER_PROFILE_NAMESPACE", "", optiontext.namespace_or_none, "name",
        "Namespace in which the daemon keeps a ClusterProfile for each member, where that kind is served. Empty: none.",
    ),
    Option(
        "READER_TOKEN_EXPIRATION_SECONDS", "0", optiontext.none_or_whole(600, 999_999_999), "number",
        "Lifetime of the reader's token; the daemon renews the token in time. 0: as long as the token's Secret exists.",
        "s",
    ),
    Option(
        "NETWORK_NAME", "default", optiontext.text, "text",
        "Name of the network of this cluster; it selects the endpoints of the other clusters.",
    ),
    Option(
        "APISERVER_ENDPOINT_ADDRESS", "", optiontext.text, "host[:port] or URL",
        "Address of this API server for the other clusters. Empty: the address that the API server itself reports.",
    ),
    Option(
        "CORE_RESOURCES_SOURCE_ENABLED", "true", optiontext.flag, "true|false",
        "Let the other clusters sync Clusters, their Secrets and rules from this cluster.",
    ),
    Option(
        "METRICS_ADDR", ":8080", optiontext.parse_address, "host:port",
        "Address of the server of /metrics. Empty or 0: no server.",
    ),
    Option(
        "HEALTH_ADDR", ":8090", optiontext.parse_address, "host:port",
        "Address of the server of /livez, /readyz and /healthz. Empty or 0: no server.",
    ),
    Option("LOG_FORMAT", "json", optiontext.choice("json", "console"), "json|console", "Format of the log lines."),
    Option(
        "LOG_VERBOSITY", "0", optiontext.whole(0, 127), "number",
        "Verbosity of the log: 0 logs changes; higher levels log more details.", "level",
    ),
    Option(
        "DELETION_LIMIT_PERCENT", "50", optiontext.whole(0, 100), "number",
        "Percentage of a rule's copies from one owner that may be deleted within five minutes; 50 copies always may. "
        "0: no limit.", "%",
    ),
    Option(
        "MEMBER_LEFT_TRUST_SECONDS", "86400", optiontext.none_or_whole(1, 999_999_999), "number",
        "Silence of a member after which this cluster accepts another member's report that it has left, or was rebuilt "
        "at another address. 0: never.", "s",
    ),
    Option(
        "STABILIZATION_WINDOW_SECONDS", "30", optiontext.none_or_whole(1, 3600), "number",
        "A rule, a ClusterFeature, a selecting label (also a source's) or this cluster's own Cluster that is "
        "deleted and created again within this time was not deleted: no copy is deleted for it. 0: act at once.", "s",
    ),
    Option(
        "MEMBER_ABSENCE_SECONDS", "600", optiontext.none_or_whole(1, 999_999_999), "number",
        "Time without a Cluster of itself in its own cluster after which a member that answers has left the group. "
        "0: only its own `leave`, or `leave NAME` here, is a departure.", "s",
    ),
    Option(
        "SYNCED_RULES_ENABLED", "true", optiontext.flag, "true|false",
        "Apply rules from other clusters here. With false they do nothing, and their copies stay.",
    ),
    Option(
        "SYNCED_RULES_KINDS", "", optiontext.kinds, "kinds",
        "Kinds that rules from other clusters may read and write here, such as "
        "`Secret,Deployment.apps,*.example.com`. Empty: all.",
    ),
    Option(
        "SYNCED_RULES_NAMESPACES", "", optiontext.namespaces, "names",
        "Namespaces into which rules from other clusters may write. If set, they may write cluster-scoped objects only "
        "of kinds in SYNCED_RULES_KINDS. Empty: all.",
    ),
    Option(
        "CLOSED_KINDS", "", optiontext.kinds, "kinds",
        "Kinds of which no rule, local or synced, writes copies here. The registry's own kinds and Secrets are exempt.",
    ),
    Option(
        "CLOSED_NAMESPACES", "", optiontext.namespaces, "names",
        "Namespaces into which no rule, local or synced, writes copies. The daemon's own namespace must not be listed.",
    ),
    Option(
        "IGNORED_NAMESPACE_CONTENT", "", optiontext.object_patterns, "objects",
        "Objects that programs make in each namespace, such as `ConfigMap/istio-ca-root-cert`: they do not keep a "
        "copied Namespace, and are deleted with it. `*` in a name stands for any characters. Copies are never ignored.",
    ),
    Option(
        "WORKERS", "32", optiontext.whole(1, 1024), "number",
        "Number of objects of one member that are written at a time; a third more workers serve the other members.",
        "objects",
    ),
)  # fmt: skip

IGNORED: Final = (
    Ignored("LEADER_ELECTION_ENABLED", "--leader-election-enabled"),
    Ignored("LEADER_ELECTION_NAME", "--leader-election-name"),
    Ignored("LEADER_ELECTION_NAMESPACE", "--leader-election-namespace"),
    Ignored("", "--enable-leader-election"),
    Ignored("", "--devel-mode"),
    Ignored("CLUSTER_VALIDATOR_WEBHOOK_ENABLED", "--cluster-validator-webhook-enabled"),
    Ignored("CLUSTER_VALIDATOR_WEBHOOK_NAME", "--cluster-validator-webhook-name"),
    Ignored("CLUSTER_VALIDATOR_WEBHOOK_HOST", "--cluster-validator-webhook-host"),
    Ignored("CLUSTER_VALIDATOR_WEBHOOK_PORT", "--cluster-validator-webhook-port"),
    Ignored("CLUSTER_VALIDATOR_WEBHOOK_CERTIFICATE_DIRECTORY", "--cluster-validator-webhook-certificate-directory"),
)
IGNORED_PREFIXES: Final = ("CLUSTERCONTROLLER_", "SYNCCONTROLLER_")
"""Prefixes of other environment names (and, in lower case with dashes, of flags) that are accepted without effect."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options as the daemon uses them. `ignored` lists the given options that have no effect."""

    namespace: str
    pod_name: str
    pod_selector: str
    provision_local_cluster: str
    manage_local_cluster_secret: bool
    reader_service_account_name: str
    multicluster_runtime_label: bool
    cluster_profile_namespace: str
    reader_token_expiration_seconds: int
    network_name: str
    apiserver_endpoint_address: str
    core_resources_source_enabled: bool
    metrics_addr: Address | None
    health_addr: Address | None
    log_format: str
    log_verbosity: int
    deletion_limit_percent: int = 50
    member_left_trust_seconds: int = 86_400
    stabilization_window_seconds: int = 30
    member_absence_seconds: int = 600
    synced_rules_enabled: bool = True
    synced_rules_kinds: tuple[GroupKind, ...] = ()
    synced_rules_namespaces: tuple[str, ...] = ()
    closed_kinds: tuple[GroupKind, ...] = ()
    closed_namespaces: tuple[str, ...] = ()
    ignored_namespace_content: tuple[ObjectPattern, ...] = ()
    workers: int = 32
    ignored: tuple[str, ...] = ()

    def remarks(self) -> tuple[str, ...]:
        """Return the messages to log once at the start: one that names the given options without effect, if any."""
        if not self.ignored:
            return ()
        ending = "has no effect and is ignored" if len(self.ignored) == 1 else "have no effect and are ignored"
        return (f"{', '.join(self.ignored)} {ending}",)

    def dump(self) -> dict[str, str | int | bool]:
        """Return every option by its environment name, in the form in which it is given. No option is a secret."""
        values = {option.environment: getattr(self, option.field) for option in OPTIONS}
        return {name: _plain(value) for name, value in values.items()}


def _plain(value: object) -> str | int | bool:
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return value if isinstance(value, str | int) else "" if value is None else str(value)


def load(environ: Mapping[str, str], flags: Mapping[str, str | None]) -> Settings:
    """Return the settings. Raises InvalidOption with the name of the wrong option.

    `flags` is keyed by field name (`metrics_addr`); the value None is a flag that was not given.
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
    """Return the table of options for the docs, with one row for each option."""
    rows = ["| Environment | Flag | Default | Value | Meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default else "empty"
        form = option.form.replace("|", " or ")
        rows.append(f"| `{option.environment}` | `{option.flag}` | {default} | {form} | {option.help} |")
    return "\n".join(rows) + "\n"


# The table and the fields must list the same options; otherwise the daemon does not start.
if [*(option.field for option in OPTIONS), "ignored"] != [field.name for field in fields(Settings)]:
    raise AssertionError("OPTIONS and Settings differ")
