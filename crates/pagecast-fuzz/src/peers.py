# DuckDB, and other writers of files. Reads lines of JSON, and answers each by one:
#   {"sql": ..., "to": a Parquet file for the rows}
#   {"make": format, "path": of a table, "name": its name, "steps": ..., "bounds": kept or not,
#    "to": a Parquet file for its rows}
#   {"write": writer, "from": a Parquet file, "to": a file, "rows": of a row group,
#    "marks": {column: type}}
import gzip, importlib.util, json, os, struct, sys
import duckdb

# Libraries print what they like, such as how far they are. Answers go where nobody else writes.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def answer(said):
    print(json.dumps(said), file=answers, flush=True)


db = duckdb.connect()
db.execute("SET TimeZone = 'UTC'")


def enum(path, columns):
    """Says of texts that they are an ENUM, as ClickHouse and parquet-go do."""
    from fastparquet.cencoding import from_buffer
    data = open(path, "rb").read()
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = from_buffer(data[-8 - size:-8], "FileMetaData")
    if not footer.row_groups:  # arrow-rs refuses its empty lists, as `findings/` says.
        return
    for element in footer.schema:
        name = element.name.decode() if isinstance(element.name, bytes) else element.name
        if name in columns:
            element.converted_type = 4
            element.contents[10] = {4: {}}  # LogicalType.ENUM
    footer.key_value_metadata = None
    written = footer.to_bytes()
    with open(path, "wb") as file:
        file.write(data[:-8 - size] + written + struct.pack("<I", len(written)) + b"PAR1")


def write(writer, source, to, rows, marks):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    if writer == "DuckDb":
        columns = ", ".join(f"CAST({c} AS {mark}) AS {c}" for c, mark in marks.items() if mark != "Enum")
        replaced = f"* REPLACE ({columns})" if columns else "*"
        db.execute(f"COPY (SELECT {replaced} FROM '{source}') TO '{to}' (FORMAT parquet, ROW_GROUP_SIZE {rows})")
        if "Enum" in marks.values():
            enum(to, [c for c, mark in marks.items() if mark == "Enum"])
        return
    if writer == "Polars":
        import polars
        polars.read_parquet(source).write_parquet(to, row_group_size=rows)
        return
    import pyarrow.parquet as parquet
    table = parquet.read_table(source)
    if writer == "PyArrow":
        parquet.write_table(table, to, row_group_size=rows)
    elif writer == "PyArrowOfOld":
        parquet.write_table(table, to, row_group_size=rows, use_deprecated_int96_timestamps=True, store_schema=False)
    elif writer == "Feather":
        import pyarrow.feather as feather
        feather.write_feather(table, to)
    elif writer == "Csv":
        import pyarrow.csv as csv
        with gzip.open(to, "wb") as file:
            csv.write_csv(table, file)
    elif writer == "FastParquet":
        import fastparquet, pandas, pyarrow
        nullable = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.int32(): pandas.Int32Dtype()}
        frame = table.to_pandas(types_mapper=nullable.get, date_as_object=False, coerce_temporal_nanoseconds=True)
        frame = frame.astype({c: object for c in frame.columns if str(frame[c].dtype) in ("str", "string")})
        fastparquet.write(to, frame, row_group_offsets=rows, object_encoding="utf8")
    else:
        raise ValueError(f"no writer {writer}")


wheels = {"PyArrow": "pyarrow", "PyArrowOfOld": "pyarrow", "Feather": "pyarrow", "Csv": "pyarrow", "Polars": "polars",
          "FastParquet": "fastparquet"}
writers = ["DuckDb"] + [writer for writer, wheel in wheels.items() if importlib.util.find_spec(wheel)]
answer({"version": duckdb.__version__, "writers": writers})
for line in sys.stdin:
    asked = json.loads(line)
    try:
        if asked.get("make"):
            make(asked["make"], asked["path"], asked["name"], asked["steps"], asked["bounds"], asked["to"])
        elif asked.get("write"):
            write(asked["write"], asked["from"], asked["to"], asked["rows"], asked["marks"])
        elif asked.get("to"):
            db.execute(f"COPY ({asked['sql']}) TO '{asked['to']}' (FORMAT parquet)")
        else:
            db.execute(asked["sql"])
        answer({})
    except Exception as error:
        answer({"error": str(error)[:500]})
