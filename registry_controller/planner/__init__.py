"""Plans and explanations of the daemon's writes; the engine without a writer.

Law: the planner cannot write. The daemon's own code decides.
"""
