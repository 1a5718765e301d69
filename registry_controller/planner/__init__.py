"""What the daemon would do, and why; the engine without a writer.

Law: the planner cannot write. The daemon's own code decides.
"""
