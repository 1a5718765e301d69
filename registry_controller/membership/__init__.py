"""Membership of the group: departures, tombstones, limits on relayed Clusters and Secrets, and the `leave` command."""
