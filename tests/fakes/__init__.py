"""Servers on loopback that speak providers' real wire formats, for tests: no network, no key."""
