"""`registry-controller probe`: checks members from a daemon's Pod, for `join`. No user calls it."""

from __future__ import annotations

import sys

import click

from registry_controller.cli.failures import run_to_end

_MOST_BYTES = 8 * 1024 * 1024


@click.command("probe", hidden=True)
def probe_command() -> None:
    """Read a request as one line of JSON, check the members in it, and print the answer as one line of JSON."""
    import msgspec  # noqa: PLC0415

    from registry_controller.admin.probe import ProbeRequest, answer  # noqa: PLC0415

    line = sys.stdin.buffer.readline(_MOST_BYTES)
    try:
        request = msgspec.json.decode(line, type=ProbeRequest)
    except msgspec.DecodeError:
        raise click.UsageError(
            "the standard input holds no request; `registry-controller check` is for people"
        ) from None
    sys.stdout.buffer.write(msgspec.json.encode(run_to_end(answer(request))) + b"\n")
