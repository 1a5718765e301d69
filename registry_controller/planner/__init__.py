"""What the daemon would do, and why; the engine without a writer.

Law: nothing here can write. What is decided is decided by the code that the daemon runs.
"""
