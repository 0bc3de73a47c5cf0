# Tables of deltalake, pyiceberg and DuckDB's DuckLake. A step appends the rows of a Parquet file,
# by the values of a column if it says so, or deletes rows. Each ends with what the writer's own
# reader says.
import glob, pathlib, sys


def rows_of(step):
    import pyarrow, pyarrow.parquet
    table = pyarrow.parquet.read_table(step["rows"])
    return table.cast(pyarrow.schema([field.with_nullable(True) for field in table.schema]))


def make_delta(path, name, steps, bounds):
    import deltalake, pyarrow
    configuration = None if bounds else {"delta.dataSkippingNumIndexedCols": "0"}
    for step in steps:
        if "rows" in step:
            by = [step["by"]] if step["by"] else None
            deltalake.write_deltalake(path, rows_of(step), mode="append", schema_mode="merge", partition_by=by,
                                      configuration=configuration)
        else:
            deltalake.DeltaTable(path).delete(step["delete"])
    return pyarrow.table(deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute("SELECT * FROM t"))


def make_iceberg(path, name, steps, bounds):
    from pyiceberg.catalog.sql import SqlCatalog
    catalog = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{path}")
    catalog.create_namespace_if_not_exists("n")
    table, properties = None, {} if bounds else {"write.metadata.metrics.default": "none"}
    for step in steps:
        if "delete" in step:
            table.delete(step["delete"])
            continue
        rows = rows_of(step)
        if table is None:
            table = catalog.create_table(f"n.{name}", rows.schema, location=f"file://{path}", properties=properties)
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.union_by_name(rows.schema)
        known = [field.name for field in table.spec().fields]
        with table.update_spec() as update:
            for field in known:
                update.remove_field(field)
        if step["by"]:
            with table.update_spec() as update:
                update.add_identity(step["by"])
        table.append(rows)
    return table.scan().to_arrow()


def make_ducklake(path, name, steps, bounds):
    import duckdb
    folder = pathlib.Path(path).parent
    db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in ("sqlite_scanner", "ducklake"):
        files = [f for p in sys.path for f in glob.glob(f"{p}/duckdb_extension_{extension}/extensions/*/*.duckdb_extension")]
        db.execute(f"LOAD '{files[0]}'")
    db.execute("SET TimeZone = 'UTC'")
    db.execute(f"ATTACH 'ducklake:sqlite:{folder}/lake.sqlite' AS l (DATA_PATH '{folder}/.lake')")
    for step in steps:
        if "delete" in step:
            db.execute(f"DELETE FROM l.{name} WHERE {step['delete']}")
            continue
        rows = rows_of(step)
        if not db.execute(f"SELECT 1 FROM duckdb_tables() WHERE database_name = 'l' AND table_name = '{name}'").fetchone():
            db.execute(f"CREATE TABLE l.{name} AS SELECT * FROM rows LIMIT 0")
        known = dict(db.execute(f"SELECT column_name, column_type FROM (DESCRIBE l.{name})").fetchall())
        for column, kind in db.execute("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM rows)").fetchall():
            if column not in known:
                db.execute(f"ALTER TABLE l.{name} ADD COLUMN {column} {kind}")
            elif known[column] == "INTEGER" and kind == "BIGINT":
                db.execute(f"ALTER TABLE l.{name} ALTER {column} SET DATA TYPE BIGINT")
        by = f"SET PARTITIONED BY ({step['by']})" if step["by"] else "RESET PARTITIONED BY"
        db.execute(f"ALTER TABLE l.{name} {by}")
        db.execute(f"INSERT INTO l.{name} BY NAME SELECT * FROM rows")
    found = db.execute(f"SELECT * FROM l.{name}").to_arrow_table()
    db.close()
    return found


def make(kind, path, name, steps, bounds, to):
    import pyarrow.parquet
    makes = {"Delta": make_delta, "Iceberg": make_iceberg, "DuckLake": make_ducklake}
    pyarrow.parquet.write_table(makes[kind](path, name, steps, bounds), to)


