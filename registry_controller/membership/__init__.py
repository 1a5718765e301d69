"""Membership of the group: departures, tombstones, and limits on relayed Clusters and Secrets."""
