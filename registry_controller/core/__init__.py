"""DECISIONS: who owns, what is wanted, what to do. Pure: the clock is an argument, nothing is read or written."""
