"""The status of Clusters and rules, readiness and gauges."""
