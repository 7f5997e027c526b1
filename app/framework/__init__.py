"""How a decision is made. Pure."""
