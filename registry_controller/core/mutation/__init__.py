"""Builds copies: the source, changed by the mutations and overrides of a rule."""
