"""Hypothesis runs as tests/property/profile.py says."""

from tests.property import profile

profile.load()
