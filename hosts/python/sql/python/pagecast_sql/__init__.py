"""SQL over files, object stores and Delta tables, read through one buffer pool.

`connect` opens a connection; `pagecast.connect` is the same function.
"""

from pagecast_sql._connection import Connection, connect
from pagecast_sql._engine import SqlError, __version__
from pagecast_sql._result import Result

__all__ = ["Connection", "Result", "SqlError", "__version__", "connect"]
