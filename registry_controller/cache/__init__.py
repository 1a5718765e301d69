"""The objects at peers and in the local cluster: records, indexes, digests."""
