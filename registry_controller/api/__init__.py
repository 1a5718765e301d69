"""WORDS: the names and shapes that are written on the wire. Pure data; no I/O, no policy, no clock."""
