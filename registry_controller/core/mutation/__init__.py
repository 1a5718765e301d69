"""What a copy should be: the source, changed as its rule says."""
