"""Keeps the objects of a group of Kubernetes clusters in step, peer to peer.

Data walks up this page: watch fills cache; clusters chooses the watches; membership knows the members; sync
reconciles and writes; status reports. A package imports only from the packages below it (`hack/check` holds this).
Names such as O4 and W3 are clauses of docs/behaviour.md.

    cli/         the command line, one file a command
    admin/       commands over a group: its status, joining, leaving, checks
    process.py   the daemon as a process: signals, tuning, probes, exit code
    planner/     plans and explanations of the daemon's writes; the engine without a writer
    app.py       builds the daemon and owns its one TaskGroup
    handlers.py  passes kopf's events of our own three kinds to the registry cache
    status/      the status of Clusters and rules, readiness and gauges
    engine.py    builds the caches, the clusters and the reconciler; nothing in it writes
    group/       a library for operators over a group of clusters: members, watches, controllers
    sync/        from a key to a write: work queue, reconciler, applier, copy writer
    membership/  the members of the group: departures, tombstones, limits on relays
    clusters/    the peers to engage, their credentials, and the watches at each of them
    cache/       the objects at peers and in the local cluster: records, indexes, digests
    watch/       reflectors: list and watch one kind at one API server, resume, list again
    local/       the objects that this cluster publishes: its Cluster, its Secret, the core rules
    report/      Events, metrics, traces, logs, health, and the text of messages
    core/        pure decisions: the owner of an object, the matches of a rule, the next write of a copy
    kube/        API servers as bytes and errors of our own; the only package that knows the client
    gotemplate/  Go's text/template with sprig's functions, evaluated without I/O and within limits
    settings.py  every option: default, unit, environment name
    api/         the kinds, names and errors, as plain data
"""

__version__ = "0.1.0"
