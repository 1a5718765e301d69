"""OPTIONS: every option of the daemon, read once at the start and frozen.

One table, `OPTIONS`: the fields of `Settings`, the environment names, the flags, `--dump-config` and the tables of
the docs are readings of it. A flag beats the environment; a variable that is set and empty is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final

from registry_controller.api import optiontext
from registry_controller.api.errors import InvalidOption
from registry_controller.api.meta import GroupKind
from registry_controller.api.optiontext import Address


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
    """An option that is accepted and has no effect. `environment` may be empty."""

    environment: str
    flag: str

    @property
    def field(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")


OPTIONS: Final = (
    Option(
        "NAMESPACE", "cluster-registry", optiontext.namespace, "name",
        "Namespace of the daemon and of the Secrets it publishes.",
    ),
    Option("POD_NAME", "", optiontext.object_name_or_none, "name", "Name of the Pod that this daemon runs in."),
    Option(
        "POD_SELECTOR", "", optiontext.text, "labels",
        "Labels of all Pods that run daemons for this cluster: they share the writing of status. Empty: there is one.",
    ),
    Option(
        "PROVISION_LOCAL_CLUSTER", "", optiontext.object_name_or_none, "name",
        "Make the Cluster object of this cluster, under this name, when there is none. Empty: you make it.",
    ),
    Option(
        "MANAGE_LOCAL_CLUSTER_SECRET", "true", optiontext.flag, "true|false",
        "Keep the Secret that the local Cluster names filled with a kubeconfig for the reader ServiceAccount.",
    ),
    Option(
        "READER_SERVICE_ACCOUNT_NAME", "cluster-registry-controller-reader", optiontext.object_name, "name",
        "ServiceAccount with whose token the other clusters read here.",
    ),
    Option(
        "READER_TOKEN_EXPIRATION_SECONDS", "0", optiontext.none_or_whole(600, 999_999_999), "number",
        "How long the token of the reader is good; it is renewed in time. 0: until its Secret is deleted.", "s",
    ),
    Option(
        "NETWORK_NAME", "default", optiontext.text, "text",
        "Network that this cluster is in: chooses among the endpoints of the other clusters.",
    ),
    Option(
        "APISERVER_ENDPOINT_ADDRESS", "", optiontext.text, "host[:port] or URL",
        "Address of this API server for the other clusters. Empty: what the API server says of itself.",
    ),
    Option(
        "CORE_RESOURCES_SOURCE_ENABLED", "true", optiontext.flag, "true|false",
        "Let the other clusters learn of Clusters, their Secrets and rules from this one.",
    ),
    Option(
        "METRICS_ADDR", ":8080", optiontext.parse_address, "host:port",
        "Where /metrics is served. Empty or 0: nowhere.",
    ),
    Option(
        "HEALTH_ADDR", ":8090", optiontext.parse_address, "host:port",
        "Where /livez, /readyz and /healthz are served. Empty or 0: nowhere.",
    ),
    Option("LOG_FORMAT", "json", optiontext.choice("json", "console"), "json|console", "Form of the log lines."),
    Option(
        "LOG_VERBOSITY", "0", optiontext.whole(0, 127), "number",
        "How much is logged: 0 for changes, more for details.", "level",
    ),
    Option(
        "DELETION_LIMIT_PERCENT", "50", optiontext.whole(0, 100), "number",
        "How many percent of a rule's copies from one owner may be deleted within five minutes; 50 copies always may. "
        "0: all.", "%",
    ),
    Option(
        "MEMBER_LEFT_TRUST_SECONDS", "86400", optiontext.none_or_whole(1, 999_999_999), "number",
        "How long a member must have been silent before another one's word that it has left, or was rebuilt elsewhere, "
        "counts here. 0: it never does.", "s",
    ),
    Option(
        "SYNCED_RULES_ENABLED", "true", optiontext.flag, "true|false",
        "Let rules act here that came from other clusters. With false they do nothing, and what they made stays.",
    ),
    Option(
        "SYNCED_RULES_KINDS", "", optiontext.kinds, "kinds",
        "Kinds that rules from other clusters may read and write here, as `Secret,Deployment.apps,*.example.com`. "
        "Empty: all.",
    ),
    Option(
        "SYNCED_RULES_NAMESPACES", "", optiontext.namespaces, "names",
        "Namespaces into which rules from other clusters may write; objects in none then need their kind to be listed. "
        "Empty: all.",
    ),
    Option(
        "CLOSED_KINDS", "", optiontext.kinds, "kinds",
        "Kinds of which no rule, whoever made it, writes copies here; the registry's own kinds and Secrets apart.",
    ),
    Option(
        "CLOSED_NAMESPACES", "", optiontext.namespaces, "names",
        "Namespaces into which no rule, whoever made it, writes copies; not the daemon's own one.",
    ),
    Option(
        "WORKERS", "32", optiontext.whole(1, 1024), "number",
        "How many of one member's objects are written at a time; a third more workers are there for the others'.",
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
"""Environment names (and, in lower case with dashes, flags) that begin so are accepted without effect, too."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options as the daemon uses them. `ignored` names what was given and has no effect."""

    namespace: str
    pod_name: str
    pod_selector: str
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
    deletion_limit_percent: int = 50
    member_left_trust_seconds: int = 86_400
    synced_rules_enabled: bool = True
    synced_rules_kinds: tuple[GroupKind, ...] = ()
    synced_rules_namespaces: tuple[str, ...] = ()
    closed_kinds: tuple[GroupKind, ...] = ()
    closed_namespaces: tuple[str, ...] = ()
    workers: int = 32
    ignored: tuple[str, ...] = ()

    def remarks(self) -> tuple[str, ...]:
        """Return the lines to log once at the start: one that names all options without effect, if there are any."""
        if not self.ignored:
            return ()
        ending = "has no effect and is ignored" if len(self.ignored) == 1 else "have no effect and are ignored"
        return (f"{', '.join(self.ignored)} {ending}",)

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
