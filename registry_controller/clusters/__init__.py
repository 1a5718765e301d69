"""The plan of the group, the connections to its members, and the watches of each."""
