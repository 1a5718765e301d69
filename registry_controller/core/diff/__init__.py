"""How a copy differs from what it should be."""
