"""The peers to engage, their credentials, and the watches at each of them."""
