"""The report on groups that are up."""

from __future__ import annotations

import socket

from hack.controlplane.detached import answers


def test_a_server_that_was_killed_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        assert answers(url)
    assert not answers(url)
