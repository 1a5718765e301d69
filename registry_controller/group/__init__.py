"""A library for operators over a group of clusters: members, watches, controllers.

    async with Group.from_cluster() as group:
        async for event in group.watch("pods"):
            print(event.member, event.type, event.object)

Nothing but get, list and watch is sent to a member. `group.local` writes to the local cluster. The names that are
listed here are public, and change only with a new major version.

group        opens watches and controllers over the members
engagements  engages and disengages the members
sources      where members come from: contexts, Secrets, or the Clusters of a group
dialers      connects to members that no Cluster describes
members      one member: its connection, its streams, and the cache that users read
streams      the objects of one kind and selection at one member
watching     the events of one consumer
controller   from events to reconciliations
kopf_handlers  handlers in kopf's style
kopf_calls   the calls of one of them
objects      objects, events and keys
arguments    checks the arguments of users
local        reads and writes objects of the local cluster
local_access  the connection to the local cluster
ownership    marks a local object as owned by an object of a member
owned_objects  the marked objects of the local cluster
owner_proof  reads at a member whether an owner is gone
collector    deletes the marked objects whose owners are gone
collector_run  the same, in one local cluster
collection   the marked objects of one cluster's owners
collection_limits  limits these deletions
"""

from __future__ import annotations

from registry_controller.api.errors import Conflict, Forbidden, RegistryError
from registry_controller.group.collection_limits import CollectionHalt
from registry_controller.group.collector import Collector
from registry_controller.group.controller import Controller
from registry_controller.group.group import Group
from registry_controller.group.local import LocalObjects
from registry_controller.group.members import Member
from registry_controller.group.objects import Event, EventType, Key, Object
from registry_controller.group.ownership import Owner
from registry_controller.group.watching import Watch

__all__ = [
    "CollectionHalt",
    "Collector",
    "Conflict",
    "Controller",
    "Event",
    "EventType",
    "Forbidden",
    "Group",
    "Key",
    "LocalObjects",
    "Member",
    "Object",
    "Owner",
    "RegistryError",
    "Watch",
]
