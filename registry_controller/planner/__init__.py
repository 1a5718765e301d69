"""FORESIGHT: what would be done, and why: the engine, run once with a pencil in the place of a pen.

Law: nothing here can write. What is decided is decided by the code that the daemon runs.
"""
