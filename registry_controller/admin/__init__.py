"""Commands over a group: its status, joining, leaving, checks.

sites         the clusters of the contexts, and the options of their daemons
client        the connection to one of them, with the rights of its user
objects       parts of objects as commands read them
findings      the result of one check, and the remedy for each problem
probe         address, DNS, TCP, TLS, identity, token and rights, as the readers of a member meet them
remote_probe  runs probes in the daemons' Pods, or else on this machine
checks        the checks of one cluster, before and after the installation
published     waits until a daemon has published its Cluster and its Secret
swap          the Clusters and Secrets that members lack of each other
join          checks, swaps, and waits until the members are in step
undo          takes a swap back
member_view   one member's view of its group
group_status  the status of a group, from the views of its members
"""
