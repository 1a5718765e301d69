"""The kinds, names and errors, as plain data."""
