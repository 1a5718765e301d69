"""DOOR: the command line, one file a command."""
