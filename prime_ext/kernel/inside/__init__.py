"""Modules that run inside the user's kernel, sent as source: standard library only, Python 3.8."""
