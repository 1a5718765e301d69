"""The objects at peers and in the local cluster: records, indexes, digests.

source_cache      one kind at one peer: its objects, and the rules that match them
source_records    the records in it, and the targets that they claim
source_index      the caches of all peers, by target
shared_watches    which selections share a watch
rule_evaluator    the match of each rule with an object
lost_objects      objects that are missing after a definition was installed again, or an etcd restored
peer_objects      the ClusterFeatures and Clusters of a peer
definition_state  whether the definition of our own kinds is there, or the next one
rule_copies       the latest state that is known of each rule of another cluster
rule_events       the deletions and the specs of rules at a peer, as its watch shows them
local_cache       one kind here: its copies and native objects
copy_record       one copy: marks, numbers, digests
copy_index        the caches of all kinds here, by source
key_groups        groups of records in a cache
expectations      the state after a write, before its event comes
write_results     the result of a write, for the record
caches            all caches that a decision reads
registry          our own three kinds here
registry_reader   complete lists of them
stored_objects    a Cluster and a rule as they are stored here
stored_deletions  the counts and halts of deletions in their statuses
settled_clusters  the Cluster that counts for each member
members           the Clusters here and at each peer
credentials       the registry Secrets here
namespaces        the namespaces here
crds              the definitions here
rule_definitions  the definitions of rules with which the rules here were stored
replicas          the daemons of this cluster
interner          one object for equal values
"""
