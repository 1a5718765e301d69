"""From a key to a write: work queue, reconciler, applier, copy writer.

enqueue              from each change of an object, a rule or a peer to the keys that it affects
workqueue            the keys to reconcile: their order, their flows, one key never twice at once
reconciler           one key: read the state, decide, count a deletion, ask the owner by name, apply
reconcile_spans      the span of a reconcile, where traces are exported
state_reader         the state of a target, from the caches
origin_reader        its part about the copy's own source and rule, while that source does not claim the target
remaining_content    its part about what lives in a copied Namespace or definition
container_copies     the copies that are known there, and the writes that keep it
rule_conflicts       its part about younger rules that want another copy
gone_copies          places from which a copy went: the owner is asked before the next one is made
lost_matches         since when rules do not match the sources of copies
made_once            sources of copies that act when they are made
applier              carries out a decision: reads the source, renders the copy
desired_copy         the copy as its rule wants it
copy_updater         chooses the write: create, update, recreate or delete, and its pause
copy_writer          sends the write; nothing else in the daemon writes an object that comes from a member
stored_form          dry runs: how the API server stores a wanted copy
lost_fields          copies that lack fields which the API server does not store
digest               digests of objects
replaced_copies      copies that were deleted to be made again, with this cluster's values
contention           pauses in a fight with another writer
relayed_credentials  credentials that only relays have, tried without being stored
pace                 how often rules of other clusters may change here
deletion_limiter     holds each deletion until its set may go; the next six files are its parts
deletion_sets        the sets that wait, and when they are evaluated again, as after `allow-deletions`
deletion_budget      the deletions of one rule's copies from one owner
deletion_count       the counts of one window
deletion_history     which places and rules were deleted a moment ago
owner_limits         the limit for all copies of an owner, over all rules
steady_clock         the time of day, which no setting of the clock changes
recorder             the result of a key, and when the key comes back
outcomes             the results of a target, from its decision
results              the latest results, counted by rule and owner
"""
