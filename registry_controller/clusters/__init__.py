"""The peers to engage, their credentials, and the watches at each of them.

provider           engages the peers: reads the state, plans, and applies the plan
resolver           which Cluster is read, with which credentials, or why none
plan               which peers are engaged, kept and ended, and which servers are probed
dialer             connects to a peer, and proves which cluster it is
connection         the connection to one peer: proven, probed, lost, made again
peer               one peer: its connection, its watches, and the metadata of its cluster
peer_watches       the watches and lists at one peer: opened and closed as rules come and go
watch_plan         which rules read from which peer, and which kinds are watched here
definition_check   whether the definition of our own kinds is still there at a peer after a deletion
liveness           which peers live, and for how long they have been silent
clones             API servers that share one cluster ID
rebuilt            members that came back with another ID
metadata           the metadata of a cluster: its nodes and version
local              the watches at the local cluster
definition_reader  the definition of our own kinds here, read from the quorum after a deletion
orphans            the kinds of copies that no rule writes any more
rule_selection     whether a rule selects this cluster, and a peer
rule_state         the facts about the rules that made copies; `core/decision/rule_state.py` decides on them
rule_deletions     which rules were deleted, or are missing; `core/decision/deleted_rule.py` decides
rule_traces        the facts about rules at their owners
"""
