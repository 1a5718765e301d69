"""The decision about one target and its reason, as a pure function of its state.

decide           the decision about a copy: which owner wins, which write or deletion follows, and why
membership       the decision about Clusters and registry Secrets, and which members have left after such a decision
state            the input of a decision, with the rank of rival claims
decision         the result: Apply, Delete, Hold, Skip or NeedsProof, each with its reason
marks            the owner of an object, by its marks, and the right by which a peer offers it
proof            which decisions need the owner's answer first
deletion_limit   whether a set of deletions goes, or is halted
rule_state       whether the rule that made a copy acts
deleted_rule     whether a rule that is missing was deleted, or lost with its definition
deletion_record  which rules the record of deleted rules holds
restoration      whether a Cluster or Secret of a member may be restored here
rule_halts       the halts of rules that the Cluster of an owner holds
missing_rules    which missing rules were reported, and whose copies may go
days             whether the day of the local clock counts
stored_spec      whether a copied rule is stored as its owner wrote it
tombstones       which members have left, by tombstone
absence          which members have left, because they lack their own Cluster for long
own_tombstone    whether a lost tombstone of this cluster is created again
lost_cluster     how this cluster's own Cluster is created again
met_memberships  which memberships were here
relay            which Clusters and registry Secrets of other members a relay may bring
withdrawal       whether a client deleted a tombstone, or it went with its definition
ways             in which order the ways to a peer are tried
"""
