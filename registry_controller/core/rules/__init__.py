"""Evaluates rules: validation, matching, the selections that servers are asked for, and the local policy."""
