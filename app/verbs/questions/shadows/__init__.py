"""Shadows: what they may hold, and how decisions are compared with them."""
