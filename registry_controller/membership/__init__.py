"""The members of the group: departures, tombstones, limits on relays.

departures    the members that have left, and the copies for which their removal waits
tombstones    the tombstones here and at live members; `core/decision/tombstones.py` decides on them
absences      for how long live members lack their own Cluster; `core/decision/absence.py` decides on that
own_cluster   lost Clusters of this cluster and of members
relay_policy  the objects of other members that a relay may bring
quota         how many Clusters are copied here
leave         the command `leave`
"""
