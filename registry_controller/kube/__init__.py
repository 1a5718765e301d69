"""API servers as bytes and errors of our own; the only package that knows the client."""
