"""The past, frozen: steps between schemas and between versions of events. Imports neither app nor workers."""
