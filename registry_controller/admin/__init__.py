"""commands over a group: its status, joining, leaving, checks

sites       the clusters that a command works on, by their contexts, and the options of their daemons
findings    the result of one check, and what corrects each cause
probe       address, DNS, TCP, TLS, identity, token and rights, as a member's readers meet them
outposts    runs probes in the daemons' Pods, or else on this machine
swap        the Clusters and Secrets that members lack of each other
join        checks, swaps, waits until the members are in step; takes a swap back
"""
