"""Compaction: how large a context is, when it is condensed, where it is cut, and by what strategy.

Nothing here knows the agent's loop: the loop is passed a compactor. Nothing here writes a session file.
"""
