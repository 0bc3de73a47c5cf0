"""A thin client over libpq, so that threads can run queries at once and be timed without a process
between.

Only text results: a query's rows are tuples of strings, with None for null. ctypes lets other
threads run during every call.
"""

import ctypes
from dataclasses import dataclass

_CONNECTION_OK = 0
_RESULTS_OK = (0, 1, 2, 9)  # empty query, command, rows, single row
_SQLSTATE = ord("C")
_MESSAGE = ord("M")


class SqlError(Exception):
    """The server refused a statement."""

    def __init__(self, message: str, sqlstate: str | None):
        super().__init__(message)
        self.sqlstate = sqlstate


class Lost(SqlError):
    """The connection is gone: the backend was killed or the server went down."""


@dataclass(frozen=True)
class Result:
    """Rows of the last statement, with the names of their columns and the command's tag."""

    rows: list[tuple]
    columns: list[str]
    tag: str


def _load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures = {
        "PQconnectdb": (pointer, [text]), "PQfinish": (None, [pointer]), "PQstatus": (number, [pointer]),
        "PQerrorMessage": (text, [pointer]), "PQexec": (pointer, [pointer, text]), "PQclear": (None, [pointer]),
        "PQresultStatus": (number, [pointer]), "PQresultErrorField": (text, [pointer, number]),
        "PQntuples": (number, [pointer]), "PQnfields": (number, [pointer]), "PQfname": (text, [pointer, number]),
        "PQgetvalue": (text, [pointer, number, number]), "PQgetisnull": (number, [pointer, number, number]),
        "PQcmdStatus": (text, [pointer]), "PQbackendPID": (number, [pointer]),
        "PQsetNoticeProcessor": (pointer, [pointer, _NOTICE, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_NOTICE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


class Connection:
    """One session. Not for two threads at once."""

    def __init__(self, library: str, parameters: str):
        self._pq = _load(library)
        self.notices: list[str] = []
        self._notice = _NOTICE(lambda _, message: self.notices.append(message.decode(errors="replace")))
        self._connection = self._pq.PQconnectdb(parameters.encode())
        if self._pq.PQstatus(self._connection) != _CONNECTION_OK:
            message = self._message()
            self.close()
            raise Lost(message, None)
        self._pq.PQsetNoticeProcessor(self._connection, self._notice, None)
        self.pid = self._pq.PQbackendPID(self._connection)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session; a second call does nothing."""
        if self._connection:
            self._pq.PQfinish(self._connection)
            self._connection = None

    def execute(self, sql: str) -> Result:
        """Runs one or more statements and returns what the last one said."""
        result = self._pq.PQexec(self._connection, sql.encode())
        try:
            if self._pq.PQresultStatus(result) not in _RESULTS_OK:
                raise self._failure(result)
            return self._result(result)
        finally:
            self._pq.PQclear(result)

    def rows(self, sql: str) -> list[tuple]:
        """The rows of a query."""
        return self.execute(sql).rows

    def value(self, sql: str) -> str | None:
        """The first column of the first row."""
        return self.execute(sql).rows[0][0]

    def records(self, sql: str) -> list[dict]:
        """The rows of a query as dictionaries by column."""
        result = self.execute(sql)
        return [dict(zip(result.columns, row)) for row in result.rows]

    def _failure(self, result) -> SqlError:
        state = self._pq.PQresultErrorField(result, _SQLSTATE)
        message = self._pq.PQresultErrorField(result, _MESSAGE)
        message = message.decode(errors="replace") if message else self._message()
        # An error without a code is libpq's own: of a connection that breaks while a statement is
        # sent it may say so before its status does.
        lost = state is None or self._pq.PQstatus(self._connection) != _CONNECTION_OK
        return (Lost if lost else SqlError)(message, state.decode() if state else None)

    def _message(self) -> str:
        return self._pq.PQerrorMessage(self._connection).decode(errors="replace").strip()

    def _result(self, result) -> Result:
        pq = self._pq
        fields = range(pq.PQnfields(result))

        def cell(row: int, column: int) -> str | None:
            null = pq.PQgetisnull(result, row, column)
            return None if null else pq.PQgetvalue(result, row, column).decode(errors="replace")

        rows = [tuple(cell(row, column) for column in fields) for row in range(pq.PQntuples(result))]
        columns = [pq.PQfname(result, column).decode() for column in fields]
        return Result(rows, columns, pq.PQcmdStatus(result).decode())
