"""`registry-controller crds`: prints the CustomResourceDefinitions of this release."""

from __future__ import annotations

from typing import Final

import click

from registry_controller.api.meta import GroupKind
from registry_controller.cli.global_options import Contexts, GlobalOptions, global_options
from registry_controller.cli.output import Form, list_document, object_name

_KIND: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


@click.command("crds")
@global_options(contexts=Contexts.NONE, forms=(Form.YAML, Form.JSON, Form.NAME))
def crds_command(*, options: GlobalOptions) -> None:
    """Print the CustomResourceDefinitions of this release, to apply them before the chart or an upgrade.

    \b
    Examples:
      registry-controller crds | kubectl apply --server-side --force-conflicts -f -
      registry-controller crds -o name
    """
    from registry_controller.cache.crds import read_bundled  # noqa: PLC0415  --help needs no YAML

    printer = options.printer
    found = dict(sorted(read_bundled().items()))
    if options.form is Form.NAME:
        printer.print_names(object_name(_KIND, name) for name in found)
    elif options.form is Form.JSON:
        printer.print_document(list_document(found.values()))
    else:
        printer.print_documents(found.values())
