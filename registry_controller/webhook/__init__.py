"""Answers the API server that asks before it stores a Cluster.

Law: nothing here can keep the API server from storing anything but a second local Cluster: the configuration says
Ignore, and what goes wrong here is words in the log.

kopf's own webhook server was looked at and left: it makes one certificate a start, never renews it, and each replica
writes its own CA over the others'.
"""
