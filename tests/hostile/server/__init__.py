"""An API server in the hands of an attacker: honest where nothing else was ordered, scriptable path by path.

It shares no code with the daemon. One loop in a thread of its own serves any number of servers on loopback.
"""
