"""WIRES: API servers, as bytes and errors of our own. The only room that knows the kubernetes client."""
