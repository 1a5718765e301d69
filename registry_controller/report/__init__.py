"""Events, metrics, logs, health, and the text of messages."""
