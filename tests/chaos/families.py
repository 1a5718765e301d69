"""All faults: importing this enters each into the catalogue."""

from tests.chaos import (  # noqa: F401  each enters its own
    authorities,
    clocks,
    credentials,
    endurance,
    identities,
    killpoints,
    kinds,
    lifetimes,
    links,
    objects,
    processes,
    servers,
)
