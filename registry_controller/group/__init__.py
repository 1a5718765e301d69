"""A library for operators over a group of clusters: members, watches, controllers.

    async with Group.from_cluster() as group:
        async for event in group.watch("pods"):
            print(event.member, event.type, event.object)

Nothing but get, list and watch is sent to a member. The names that are listed here are public, and change only with a
new major version.

group        engages the members, and opens watches and controllers
sources      where members come from: contexts, Secrets, or the Clusters of a group
dialers      connects to members that no Cluster describes
members      one member: its connection, its streams, and the cache that users read
streams      the objects of one kind and selection at one member
watching     the events of one consumer
controller   from events to reconciliations
kopf_handlers  handlers in kopf's style
objects      objects, events and keys
"""

from __future__ import annotations

from registry_controller.group.controller import Controller
from registry_controller.group.group import Group
from registry_controller.group.members import Member
from registry_controller.group.objects import Event, EventType, Key, Object
from registry_controller.group.watching import Watch

__all__ = ["Controller", "Event", "EventType", "Group", "Key", "Member", "Object", "Watch"]
