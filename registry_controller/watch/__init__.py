"""Reflectors: list and watch one kind at one API server, resume, list again."""
