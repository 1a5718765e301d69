"""`hack/bench`: ours against a floor, the barest client that does the same work, in one run on real control planes.

client    the barest client: aiohttp, kept-alive connections, bytes in and out
relaying  the floor of relaying, a program of its own: a watch on one API server, a write to the other, one task
bed       two clusters with the daemons in them
relay     one change at the source until its copy has changed at the sink
bulk      many objects into an empty cluster
report    medians and ratios

Law: floor and ours are measured by the same clock in the same way, in turn (A B B A), on the same machines. What is
printed is ratios; absolute times are beside them only to know the order of magnitude.
"""
