"""Benchmarks: one command each, `python -m bench.NAME`, or `make bench` for all of them.

Each compares within one run, interleaved, so that what else the machine does falls on both sides;
reports medians; prints a table; and writes `bench/results/NAME.json`.
"""
