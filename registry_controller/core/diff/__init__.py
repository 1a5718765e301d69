"""Compares a copy with the wanted copy, and merges them for a write."""
