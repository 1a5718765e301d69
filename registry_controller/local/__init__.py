"""What this cluster publishes of itself: its Cluster, its Secret, the core rules."""
