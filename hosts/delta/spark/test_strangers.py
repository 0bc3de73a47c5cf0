"""Every table of Spark is read beside Spark, at each version and by filters that prune, and changed
beside a twin that Spark changes by the same statements; or refused by the feature's name."""

import pytest
from engines import Engines, Refused, same
from pyspark.sql.types import DataType
from strangers import BY_NAME, STRANGERS, Stranger

NAMES = [stranger.name for stranger in STRANGERS]
ADDED_TO = {"feed_with_vectors"}
WRITTEN = [stranger.name for stranger in STRANGERS if stranger.refused is None and stranger.name not in ADDED_TO]
REFUSED = [stranger.name for stranger in STRANGERS if stranger.refused is not None]
QUOTE = '"'
LITERALS = {"tinyint", "smallint", "int", "bigint", "string", "boolean", "date", "timestamp", "timestamp_ntz"}


@pytest.fixture(scope="session")
def made(engines: Engines):
    """Makes a table once."""
    known: dict[str, str] = {}

    def make(name: str) -> Stranger:
        if name not in known:
            known[name] = BY_NAME[name].make(engines)
        return BY_NAME[name]

    return make


def quoted(name: str, quote: str) -> str:
    return f"{quote}{name}{quote}"


@pytest.mark.parametrize("name", NAMES)
def test_each_version_is_read(engines: Engines, made, name: str):
    made(name)
    versions = engines.versions(name)
    assert versions
    for version in versions:
        try:
            theirs = engines.theirs(name, f"SELECT * FROM {{t}} VERSION AS OF {version}").localCheckpoint()
        except Exception as error:
            # A vacuum has deleted files of it, or the log no longer has it.
            with pytest.raises(Refused, match="gone|log begins after"):
                engines.pagecast(name, f'SELECT * FROM "{name}@v{version}"')
            assert "FileNotFound" in str(error) or "DELTA_" in str(error), error
            continue
        if theirs.columns:
            same(engines.ours(name, f'SELECT * FROM "{name}@v{version}"'), theirs, f"{name} at version {version}")
    same(engines.ours(name, "SELECT * FROM {t}"), engines.theirs(name, "SELECT * FROM {t}"), name)


def literal(text: str, kind: DataType) -> str | None:
    text = text.replace("'", "''")
    match kind.simpleString():
        case "string":
            # Spark reads escapes in texts.
            return None if "\\" in text else f"'{text}'"
        case "date":
            return f"DATE '{text}'"
        case "timestamp" | "timestamp_ntz":
            # A literal of ours has nanoseconds.
            return f"TIMESTAMP '{text}'" if "1700" < text < "2200" else None
        case _:
            return text


@pytest.mark.parametrize("name", NAMES)
def test_filters_find_the_same_rows(engines: Engines, made, name: str):
    made(name)
    frame = engines.theirs(name, "SELECT * FROM {t}").localCheckpoint()
    parts: list[tuple[str, str, str]] = []
    for field in frame.schema.fields:
        if field.dataType.simpleString() not in LITERALS:
            continue
        texts = frame.selectExpr(f"CAST({quoted(field.name, '`')} AS STRING)").distinct().collect()
        values = sorted(row[0] for row in texts if row[0] is not None)
        for value in values[:: max(1, len(values) // 5)]:
            text = literal(value, field.dataType)
            parts += [(field.name, op, text) for op in ["=", "<", ">=", "<>"] if text is not None]
        parts += [(field.name, "IS NULL", ""), (field.name, "IS NOT NULL", "")]

    ours = " UNION ALL ".join(
        f"SELECT CAST({number} AS BIGINT) AS part, count(*) AS n FROM {{t}} WHERE {quoted(column, QUOTE)} {op} {text}"
        for number, (column, op, text) in enumerate(parts)
    )
    # Each of ours is a scan that prunes. Spark counts in one.
    counts = (
        f"{number}L, count_if({quoted(column, '`')} {op} {text})" for number, (column, op, text) in enumerate(parts)
    )
    theirs = frame.selectExpr(f"stack({len(parts)}, {', '.join(counts)}) AS (part, n)")
    same(engines.ours(name, ours), theirs, f"{name}: {list(enumerate(parts))}")


def statements(engines: Engines, name: str, quote: str) -> list[str]:
    columns = engines.theirs(name, "SELECT * FROM {t}").columns
    values = ", ".join("id + 1000 AS id" if column == "id" else quoted(column, quote) for column in columns)
    return [
        f"INSERT INTO {{t}} SELECT {values} FROM {{t}} WHERE id < 8",
        "DELETE FROM {t} WHERE id % 3 = 0",
        "UPDATE {t} SET id = id + 5000 WHERE id % 4 = 1",
        f"INSERT INTO {{t}} SELECT {values} FROM {{t}} WHERE id % 4 = 2",
        "DELETE FROM {t} WHERE id > 5000 AND id % 2 = 0",
    ]


@pytest.mark.parametrize("name", WRITTEN)
def test_changes_are_those_of_spark(engines: Engines, made, name: str):
    made(name)
    ours, theirs = engines.twin(name, f"{name}_ours"), engines.twin(name, f"{name}_theirs")

    def check(about: str, of_ours: bool = True) -> None:
        expected = engines.theirs(theirs, "SELECT * FROM {t}").localCheckpoint()
        same(engines.theirs(ours, "SELECT * FROM {t}"), expected, f"{name}: Spark reads what we wrote, {about}")
        if of_ours:
            same(engines.ours(ours, "SELECT * FROM {t}"), expected, f"{name}: we read it, {about}")

    still = BY_NAME[name].still
    ids = row_ids(engines, ours) if still else {}
    for own, other in zip(statements(engines, name, QUOTE), statements(engines, name, "`"), strict=True):
        if still and own.startswith("UPDATE"):
            with pytest.raises(Refused, match="rowTracking"):
                engines.pagecast(ours, own)
            continue
        engines.pagecast(ours, own)
        engines.theirs(theirs, other)
        check(own, of_ours=False)
    if still:
        now = row_ids(engines, ours)
        assert all(now[row] == ids[row] for row in now.keys() & ids.keys()), (ids, now)
        new = [now[row] for row in now.keys() - ids.keys()]
        assert len(set(now.values())) == len(now) and min(new) > max(ids.values()), (ids, now)
        return
    folder = engines.path(ours)
    engines.pagecast(ours, f"SELECT * FROM delta_compact('{folder}', 0.0)")
    check("compacted")
    for own in ["DELETE FROM {t} WHERE id % 5 = 0", "UPDATE {t} SET id = id + 20000 WHERE id % 7 = 1", "OPTIMIZE {t}"]:
        engines.theirs(ours, own)
        engines.theirs(theirs, own)
        check(f"and Spark has done {own}")
    engines.pagecast(ours, f"SELECT * FROM delta_vacuum('{folder}', 0, 'force')")
    check("vacuumed")


def row_ids(engines: Engines, name: str) -> dict[int, int]:
    """The ids that Spark has for the rows."""
    return dict(engines.theirs(name, "SELECT id, _metadata.row_id FROM {t}").collect())


def test_rows_are_only_added_to_a_change_feed(engines: Engines, made):
    made(name := "feed_with_vectors")
    insert, delete, update, *_ = statements(engines, name, QUOTE)
    ours = engines.twin(name, f"{name}_ours")
    for change in [delete, update]:
        with pytest.raises(Refused, match="changeDataFeed"):
            engines.pagecast(ours, change)
    engines.pagecast(ours, insert)
    version = engines.versions(ours)[-1]
    feed = engines.spark.sql(f"SELECT * FROM table_changes_by_path('{engines.path(ours)}', {version}, {version})")
    new = feed.where("_change_type = 'insert'").select("id", "part", "text")
    same(new, engines.theirs(ours, "SELECT * FROM {t} WHERE id >= 1000"), "Spark's feed of what we added")


@pytest.mark.parametrize("name", REFUSED)
def test_what_we_cannot_write_is_refused_by_its_name(engines: Engines, made, name: str):
    stranger = made(name)
    before = sorted(engines.path(name).rglob("*"))
    insert, delete, *_ = statements(engines, name, QUOTE)
    for change in [delete] if stranger.refused == "appendOnly" else [insert, delete]:
        with pytest.raises(Refused, match=stranger.refused):
            engines.pagecast(name, change)
    assert sorted(engines.path(name).rglob("*")) == before


def test_a_null_is_refused_where_the_table_has_none(engines: Engines, made):
    made(name := "not_null")
    for values in ["NULL, 1, 'x', NULL", "1, 1, NULL, NULL", "1, 1, 'x', named_struct('a', CAST(NULL AS INT))"]:
        with pytest.raises(Refused, match="(?i)null"):
            engines.pagecast(name, f"INSERT INTO {{t}} VALUES ({values})")


def test_a_shallow_clone_is_read_and_changed_where_its_source_is_allowed(engines: Engines, made):
    made(source := "vectors")
    name = "shallow"
    engines.theirs(name, f"CREATE TABLE {{t}} SHALLOW CLONE delta.`{engines.path(source)}`")
    with pytest.raises(Refused, match="unless you allow its place"):
        engines.pagecast(name, "SELECT * FROM {t}")
    allow = ["--allow", str(engines.path(source))]
    same(engines.ours(name, "SELECT * FROM {t}", *allow), engines.theirs(source, "SELECT * FROM {t}"), name)
    before = sorted(engines.path(source).rglob("*"))
    for change in statements(engines, name, QUOTE):
        engines.pagecast(name, change, *allow)
    same(engines.ours(name, "SELECT * FROM {t}", *allow), engines.theirs(name, "SELECT * FROM {t}"), name)
    engines.pagecast(name, "SELECT * FROM delta_vacuum('{}', 0, 'force')".format(engines.path(name)), *allow)
    assert sorted(engines.path(source).rglob("*")) == before
    same(engines.ours(name, "SELECT * FROM {t}", *allow), engines.theirs(name, "SELECT * FROM {t}"), "vacuumed")


def test_spark_reads_and_changes_a_table_of_ours(engines: Engines):
    name = "made_by_us"
    columns = """id BIGINT, day DATE, text VARCHAR, at TIMESTAMP WITH TIME ZONE, plain TIMESTAMP,
        price DECIMAL(12, 2), part INT"""
    place = f"STORED AS DELTATABLE PARTITIONED BY (day, part) LOCATION '{engines.path(name)}'"
    rows = """SELECT value, DATE '2024-01-01' + CAST(value % 3 AS INT), 't' || value,
        TIMESTAMP '2024-01-02T03:04:05.678901Z', TIMESTAMP '2024-01-02T03:04:05.678901', value / 4.0,
        CASE WHEN value % 5 > 0 THEN value % 5 END FROM range(40)"""
    engines.path(name).mkdir()
    made = f'CREATE EXTERNAL TABLE "{name}" ({columns}) {place}; INSERT INTO {{t}} {rows}'
    engines.without_data(name, made)
    same(engines.ours(name, "SELECT * FROM {t}"), engines.theirs(name, "SELECT * FROM {t}"), "made by us")
    engines.theirs(name, "DELETE FROM {t} WHERE id % 4 = 1")
    engines.theirs(name, "ALTER TABLE {t} ADD COLUMN more INT")
    engines.theirs(name, "UPDATE {t} SET more = 1 WHERE part = 2")
    same(engines.ours(name, "SELECT * FROM {t}"), engines.theirs(name, "SELECT * FROM {t}"), "and changed by Spark")
