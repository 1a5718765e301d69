"""What to do about one target, and why."""
