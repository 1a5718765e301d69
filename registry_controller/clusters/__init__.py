"""Which peers are engaged, with which credentials, and what is watched at each."""
