"""MOTION: the long-lived tasks and their memory. A task never decides; it asks core."""
