"""`registry-controller check`: checks clusters before and after the installation."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from registry_controller.cli.failures import run_to_end
from registry_controller.cli.global_options import Contexts, GlobalOptions, global_options
from registry_controller.cli.output import Cell, Form, Table, Tone

if TYPE_CHECKING:
    from registry_controller.admin.findings import CheckResult

_FORMS: Final = (Form.TEXT, Form.WIDE, Form.JSON, Form.YAML)
_TONES: Final = {"ok": Tone.GOOD, "warn": Tone.WARNING, "fail": Tone.BAD}
_IN_POD: Final = "KUBERNETES_SERVICE_HOST"


@click.command("check")
@click.option("--pre", is_flag=True, help="Check before the installation.")
@click.option(
    "--address", metavar="URL", default="", help="With --pre: the address of the API server for the other clusters."
)
@global_options(contexts=Contexts.MANY, forms=_FORMS)
@click.pass_context
def check_command(ctx: click.Context, /, *, options: GlobalOptions, pre: bool, address: str) -> None:
    """Check a cluster, before (--pre) and after the installation, and report what to do for each failure.

    Checks the version of the API server, the CustomResourceDefinitions, rights, the image, the published address with
    its certificate, and clocks. For each peer: its name, port, certificate and token, the rights of the reader, and how
    the peer sees this cluster. In the daemon's Pod the checks have the daemon's rights and its way to the peers.

    Exits 1 for a failure. Warnings do not count.

    \b
    Examples:
      registry-controller check --pre --context kind-a --address https://a.example.com:6443
      registry-controller check --context kind-a --context kind-b
      registry-controller check --context kind-a -o json
    """
    if address and not pre:
        raise click.UsageError("--address is for --pre: afterwards the published address is checked", ctx)
    if address and len(options.contexts) > 1:
        raise click.UsageError("--address is the address of one cluster: give one --context with it", ctx)
    work = _check(options, pre=pre, address=_read_address(ctx, address))
    with options.printer.progress("checking the clusters" if pre else "checking the clusters and their peers"):
        found = run_to_end(work)
    _print_findings(options, found, pre=pre)
    if any(finding.is_failure for _, finding in found):
        sys.exit(1)


def _read_address(ctx: click.Context, address: str) -> str:
    from registry_controller.api.errors import InvalidKubeconfig  # noqa: PLC0415
    from registry_controller.kube.address import read_address  # noqa: PLC0415

    try:
        return read_address(address, field="--address") if address else ""
    except InvalidKubeconfig as error:
        raise click.UsageError(str(error), ctx) from None


async def _check(options: GlobalOptions, *, pre: bool, address: str) -> Sequence[tuple[str, CheckResult]]:
    """Return the findings with the contexts in which they were made."""
    from registry_controller.admin.checks import SiteChecks  # noqa: PLC0415
    from registry_controller.admin.sites import connect_sites  # noqa: PLC0415

    is_inside = _IN_POD in os.environ and not options.contexts and options.kubeconfig is None
    namespace = options.namespace or (os.environ.get("NAMESPACE") if is_inside else None)
    async with connect_sites(options.connections, namespace=namespace) as found:
        sites = found.require_all()
        checks = [SiteChecks(site, is_inside=is_inside, others=sites) for site in sites]
        results = await asyncio.gather(*(one.before(address=address) if pre else one.after() for one in checks))
        return [(site.label, one) for site, findings in zip(sites, results, strict=True) for one in findings]


def _print_findings(options: GlobalOptions, findings: Sequence[tuple[str, CheckResult]], *, pre: bool) -> None:
    from registry_controller.admin.findings import FirstRemedies, ValueRemedies, remedy  # noqa: PLC0415

    printer, remedies = options.printer, FirstRemedies() if pre else ValueRemedies()
    if printer.is_for_programs:
        printer.print_document(
            [
                {
                    "context": context,
                    "cluster": finding.subject,
                    "check": finding.step,
                    "result": finding.level.value,
                    "message": finding.message,
                    "problem": finding.problem.value if finding.problem is not None else None,
                    "remedy": remedy(finding, remedies) or None,
                }
                for context, finding in findings
            ]
        )
        return
    rows: list[Sequence[str | Cell]] = [
        [
            Cell(finding.level.value, _TONES[finding.level.value]),
            context,
            finding.subject,
            finding.step,
            "; ".join(part for part in (finding.message, remedy(finding, remedies)) if part),
        ]
        for context, finding in findings
    ]
    more = frozenset[str]() if len(options.contexts) > 1 else frozenset({"FROM"})
    printer.print_table(Table(["RESULT", "FROM", "CLUSTER", "CHECK", "MESSAGE"], rows, only_wide=more))
    failures = sum(finding.is_failure for _, finding in findings)
    printer.say(f"{failures} of {len(findings)} checks failed" if failures else "all checks passed")
