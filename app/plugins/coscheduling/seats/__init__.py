"""Seats of members that are not bound: what they keep of their gang, and what follows if one is lost."""
