"""The objects that this cluster publishes: its Cluster, its Secret, the core rules."""
