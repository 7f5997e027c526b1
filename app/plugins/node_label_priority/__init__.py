"""Nodes say by a label whether they take part, and how much they are liked."""
