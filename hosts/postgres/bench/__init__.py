"""Stock PostgreSQL against the same server with pg_pagecast: `python3 -m bench --help`."""
