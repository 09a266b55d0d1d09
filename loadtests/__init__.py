"""Measurements against a live server: one module each, `python -m loadtests.NAME`, the last line of the output is JSON."""
