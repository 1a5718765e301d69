"""VOICE: what we say of what we did: status, Events, metrics, health, logs."""
