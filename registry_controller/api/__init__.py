"""The objects, labels, annotations and errors of the registry's API. Pure data: no I/O, no policy, no clock."""
