"""The questions of version 1: one module for each kind of answer."""
