"""Filters and scores nodes by the value of one node label."""
