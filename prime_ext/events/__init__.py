"""Schemas of operational events, and what emits them through `jupyter_events`."""
