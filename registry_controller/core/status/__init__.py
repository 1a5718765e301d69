"""Computes the status of Clusters and rules from facts, and merges it into the stored status."""
