"""Private PostgreSQL clusters: found, created, limited, crashed, and always gone at the end.

Everything under `hosts/postgres` that needs a server takes it from here. A cluster listens on a
Unix socket in a folder of its own and runs as an unprivileged user, so it meets no other server of
the machine and none meets it.
"""

from cluster.installation import Installation, find, find_with_pagecast
from cluster.libpq import Connection, Lost, SqlError
from cluster.limits import Limits
from cluster.server import Cluster, ServerFailed

__all__ = ["Cluster", "Connection", "Installation", "Limits", "Lost", "ServerFailed", "SqlError", "find",
           "find_with_pagecast"]
