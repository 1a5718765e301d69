"""What the status of a Cluster and of a rule says."""
