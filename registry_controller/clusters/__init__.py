"""The clusters of the group: plans the peers to engage, connects to them, and watches them and the local cluster."""
