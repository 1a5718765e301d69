"""A6: what the real program prints when it crashes: where, and nothing of what was quoted or held there."""

from __future__ import annotations

import base64
import os
import subprocess
import sys

import pytest

CANARY = "canary-9f2c41d7e0"
PROGRAM = """
import asyncio, gc, os, sys, threading

from registry_controller import process
from registry_controller.cli import main

WHERE, CANARY = os.environ.pop("WHERE"), os.environ.pop("PLANTED")


class Odd(Exception):
    pass


# As Python and libraries quote what they could not use.
MISTAKES = (
    lambda text: ValueError(f"invalid literal for int() with base 10: {text!r}"),
    lambda text: ValueError(f"cannot read {text.encode()!r}"),
    lambda text: Odd("cannot read", {"data": {"password": text}}),
    lambda text: Odd(text, text.encode(), [text]),
    lambda text: KeyError(text),
)


def make_a_mistake(password, mistake):
    held = {"data": {"password": password, "bytes": password.encode()}}
    error = mistake(password)
    error.add_note(f"with {held}")
    raise error


def make_all():
    errors = []
    for mistake in MISTAKES:
        try:
            make_a_mistake(CANARY, mistake)
        except Exception as error:
            errors.append(error)
    raise ExceptionGroup("several", errors) from errors[0]


class Lost:
    def __init__(self, mistake):
        self.mistake = mistake

    def __del__(self):
        make_a_mistake(CANARY, self.mistake)


async def in_a_task(password, mistake):
    make_a_mistake(password, mistake)


async def crash(settings, *, kubeconfig, context, tracing):
    if WHERE == "main thread":
        make_all()
    for mistake in MISTAKES:
        match WHERE:
            case "thread":
                thread = threading.Thread(target=make_a_mistake, args=(CANARY, mistake))
                thread.start()
                thread.join()
            case "task":
                task = asyncio.create_task(in_a_task(CANARY, mistake))
                await asyncio.wait([task])
                del task
                gc.collect()
            case "callback":
                asyncio.get_running_loop().call_soon(make_a_mistake, CANARY, mistake)
                await asyncio.sleep(0)
            case "finalizer":
                Lost(mistake)
    await asyncio.sleep(0)
    os._exit(1)


process._run_daemon = crash
main()
"""


@pytest.mark.parametrize(
    ("where", "form"),
    [("main thread", "json"), ("main thread", "console"), ("thread", "json"), ("task", "json"), ("callback", "json"),
     ("finalizer", "json")],
)  # fmt: skip
def test_a6_a_crash_tells_where_and_nothing_of_what_was_there(where: str, form: str) -> None:
    """A6: neither what a message quotes, nor arguments, notes and locals, at any verbosity."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "run", "--log-verbosity=9", f"--log-format={form}"],
        env={**os.environ, "WHERE": where, "PLANTED": CANARY}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert said.count(" in make_a_mistake") >= 5, said
    assert said.count("Odd") >= 2, said
    for secret in (CANARY, base64.b64encode(CANARY.encode()).decode().rstrip("=")):
        assert secret not in said
