"""The decision about one target and its reason, as a pure function of its state."""
