"""Whom a preemption may evict, decided in one state."""
