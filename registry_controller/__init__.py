"""Keeps the objects of a group of Kubernetes clusters in step, peer to peer.

Data walks down the page once: watch fills cache; clusters decides what is watched; membership decides who counts;
sync reconciles and writes; status reports. A package imports only from below it (`hack/check` holds this):

    cli/         the command line, one file a command
    process.py   the daemon as a process: signals, tuning, probes, exit code
    planner/     what the daemon would do, and why; the engine without a writer
    app.py       builds the daemon and owns its one TaskGroup
    handlers.py  passes kopf's events of our own three kinds to the registry cache
    status/      the status of Clusters and rules, readiness and gauges
    engine.py    builds the caches, the clusters and the reconciler; nothing in it writes
    sync/        from a key to a write: work queue, reconciler, applier, copy writer
    membership/  who counts as a member: departures, tombstones, what relays may bring
    clusters/    which peers are engaged, with which credentials, and what is watched at each
    cache/       what is known of the objects at peers and in the local cluster: records, indexes, digests
    watch/       reflectors: list and watch one kind at one API server, resume, list again
    local/       what this cluster publishes of itself: its Cluster, its Secret, the core rules
    report/      Events, metrics, logs, health, and the text of messages
    core/        pure decisions: who owns an object, what a rule asks for, what to do about a copy
    kube/        API servers as bytes and errors of our own; the only package that knows the client
    gotemplate/  Go's text/template with sprig's functions, evaluated without I/O and within limits
    settings.py  every option: default, unit, environment name
    api/         the kinds, names and errors, as plain data
"""

__version__ = "0.1.0"
