"""Keep the objects of a group of Kubernetes clusters in step, peer to peer.

The map; each room has one purpose, and imports lead only down this list (`hack/check` holds them to it):

    cli/          DOOR       one file a command
    process.py    PROCESS    signals, tuning, probes, exit code: the daemon as a process
    planner/      FORESIGHT  what would be done, and why: the engine, run once with a pencil in the place of a pen
    app.py        ROOT       builds everything, owns the one TaskGroup
    handlers.py   EAR        kopf's events of our own kinds, handed to the registry; decides nothing
    engine/       MOTION     long-lived tasks and their memory
    report/       VOICE      status, Events, metrics, health, logs
    core/         DECISIONS  pure: who owns, what is wanted, what to do
    kube/         WIRES      the only room that knows the kubernetes client
    gotemplate/   TEMPLATES  Go's text/template, evaluated here
    settings.py   OPTIONS    every option: default, unit, environment name
    api/          WORDS      pure data, no policy
"""

__version__ = "0.1.0"
