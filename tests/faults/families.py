"""All faults: importing this enters each into the catalogue."""

from tests.faults import (
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

FAMILIES = (
    links, servers, processes, clocks, credentials, identities, lifetimes, authorities, objects, kinds, killpoints,
    endurance,
)  # fmt: skip
