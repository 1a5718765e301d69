"""From a key to a write: work queue, reconciler, applier, copy writer."""
