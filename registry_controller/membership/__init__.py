"""Who counts as a member: departures, tombstones, what relays may bring."""
