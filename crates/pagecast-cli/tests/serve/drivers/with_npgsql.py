"""What Npgsql does with a server, on the port that is the argument. .NET and Npgsql are those that
packages of PyPI carry (ci/clients.sh). It looks up all types on connecting, prepares everything,
and takes values in the binary format."""

import json
import pathlib
import sys
import tempfile

import clr_loader
import dotnetcore2
import pythonnet

ENGINE = "azureml/dataprep/api/engineapi/bin"
packages = pathlib.Path(dotnetcore2.__file__).parent.parent
with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
    framework = {"name": "Microsoft.NETCore.App", "version": "3.1.0"}
    invariant = {"System.Globalization.Invariant": True}
    json.dump({"runtimeOptions": {"framework": framework, "configProperties": invariant}}, config)
    config.flush()
    dotnet = packages / "dotnetcore2/bin"
    pythonnet.set_runtime(clr_loader.get_coreclr(runtime_config=config.name, dotnet_root=str(dotnet)))
    import clr
sys.path.append(str(packages / ENGINE))
clr.AddReference("Npgsql")

import System
from Npgsql import NpgsqlCommand, NpgsqlConnection, PostgresException

DSN = f"Host=127.0.0.1;Port={sys.argv[1]};Username=npgsql;Database=pagecast"


def rows(connection, sql, prepared=False, **given):
    command = NpgsqlCommand(sql, connection)
    for name, value in given.items():
        command.Parameters.AddWithValue(name, value)
    if prepared:
        command.Prepare()
    reader = command.ExecuteReader()
    found = []
    while reader.Read():
        found.append([reader.GetValue(column) for column in range(reader.FieldCount)])
    reader.Close()
    return found


def values(connection):
    (row,) = rows(
        connection,
        """SELECT true, 7::smallint, 7::int, 7::bigint, 0.5::real, 0.1::double precision, 12.340::numeric(10, 3),
           'text'::text, DATE '2024-02-29', TIMESTAMP '1999-12-31 23:59:59.5', ARRAY[1, 2]::int[], NULL::text""",
    )
    assert row[:6] == [True, 7, 7, 7, 0.5, 0.1] and row[7] == "text", row
    shown = [str(value) for value in (row[6], row[8].ToString("s"), row[9].ToString("s"))]
    assert shown == ["12.340", "2024-02-29T00:00:00", "1999-12-31T23:59:59"], shown
    assert list(row[10]) == [1, 2] and isinstance(row[11], System.DBNull), row


def parameters(connection):
    one = lambda sql, **given: [rows(connection, sql, prepared, **given)[0][0] for prepared in (False, True)]
    long = System.Int64
    assert one("SELECT count(*) FROM nation WHERE n_regionkey = @r", r=long(1)) == [5, 5]
    assert one("SELECT n_name FROM nation WHERE n_name = @n", n="PERU") == ["PERU", "PERU"]
    keys = System.Array[long]([long(1), long(2)])
    assert one("SELECT count(*) FROM nation WHERE n_nationkey = ANY(@k)", k=keys) == [2, 2]
    day = System.DateTime(1995, 6, 1)
    assert one("SELECT count(*) > 0 FROM orders WHERE o_orderdate < @d", d=day) == [True, True]


def errors(connection):
    for sql, code in [("SELECT * FROM nowhere", "42P01"), ("SELECT 1/0", "22012")]:
        try:
            rows(connection, sql)
        except PostgresException as error:
            assert error.SqlState == code, (sql, error.SqlState)
            continue
        raise AssertionError(f"{sql} is no error")


connection = NpgsqlConnection(DSN)
connection.Open()
values(connection)
parameters(connection)
errors(connection)
assert len(rows(connection, "SELECT l_orderkey FROM lineitem")) > 50_000
tables = connection.GetSchema("Tables")
assert "nation" in {row["table_name"] for row in tables.Rows}, tables.Rows.Count
copied = connection.BeginTextExport("COPY nation TO STDOUT")
assert len(copied.ReadToEnd().splitlines()) == 25
copied.Dispose()
binary = connection.BeginBinaryExport("COPY (SELECT n_nationkey FROM nation ORDER BY 1) TO STDOUT (FORMAT binary)")
keys = []
while binary.StartRow() > 0:
    keys.append(binary.Read[System.Int64]())
assert keys == list(range(25)), keys
binary.Dispose()
connection.Close()
