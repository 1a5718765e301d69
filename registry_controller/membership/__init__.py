"""The members of the group: departures, tombstones, limits on relays."""
