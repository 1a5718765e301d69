"""Events, metrics, traces, logs, health, and the text of messages."""
