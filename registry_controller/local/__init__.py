"""This cluster's own objects: its Cluster, its Secret, the core rules."""
