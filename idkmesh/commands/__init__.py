"""Decisions: pure functions from a state, a command and a time to one event or a refusal."""
