"""Tests of pg_pagecast on private clusters: `python3 -m tests --help`."""
