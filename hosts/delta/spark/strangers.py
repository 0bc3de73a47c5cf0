"""Tables as Spark writes them: one for each feature, or for what writers have done to a table."""

from dataclasses import dataclass, field

from delta.tables import DeltaTable, IdentityGenerator
from engines import Engines
from pyspark.sql.types import DateType, LongType

VECTORS = "'delta.enableDeletionVectors' = 'true'"
MAPPED = "'delta.columnMapping.mode' = 'name'"
NESTED = "pair STRUCT<a: INT, b: STRING>, list ARRAY<STRUCT<x: INT>>, map MAP<STRING, STRUCT<y: DOUBLE>>"
NESTED_ROWS = """id, named_struct('a', INT(id), 'b', concat('b', id)), array(named_struct('x', INT(id)), NULL),
    map(concat('k', id), named_struct('y', DOUBLE(id) / 4), 'none', NULL)"""


@dataclass
class Stranger:
    """Statements of Spark, in which `{t}` is the table; or what makes it."""

    name: str
    made: list
    # What we refuse to change, by this word.
    refused: str | None = None
    # Whether rows can be added and deleted, and keep their file.
    still: bool = False
    settings: dict = field(default_factory=dict)

    def make(self, engines: Engines, name: str | None = None) -> str:
        name = name or self.name
        for key, value in self.settings.items():
            engines.spark.conf.set(key, value)
        try:
            for step in self.made:
                if callable(step):
                    step(engines, name)
                else:
                    engines.theirs(name, step)
        finally:
            for key in self.settings:
                engines.spark.conf.unset(key)
        return name


def created(columns: str, *properties: str, clauses: str = "") -> str:
    of_table = f" TBLPROPERTIES ({', '.join(properties)})" if properties else ""
    return f"CREATE TABLE {{t}} ({columns}) USING delta {clauses}{of_table}"


def filled(first: int, last: int, values: str = "id, id % 7, concat('t', id)") -> str:
    return f"INSERT INTO {{t}} SELECT {values} FROM range({first}, {last})"


def generated(engines: Engines, name: str) -> None:
    made = DeltaTable.create(engines.spark).location(str(engines.path(name)))
    made = made.addColumn("id", LongType()).addColumn("at", "TIMESTAMP")
    made.addColumn("day", DateType(), generatedAlwaysAs="CAST(at AS DATE)").partitionedBy("day").execute()


def identity(engines: Engines, name: str) -> None:
    made = DeltaTable.create(engines.spark).location(str(engines.path(name)))
    made.addColumn("key", LongType(), generatedAlwaysAs=IdentityGenerator()).addColumn("id", LongType()).execute()


def converted(engines: Engines, name: str) -> None:
    frame = engines.spark.sql("SELECT id, concat('a b%=', id % 3) AS part, id * 2 AS twice FROM range(30)")
    frame.write.partitionBy("part").parquet(str(engines.path(name)))
    engines.spark.sql(f"CONVERT TO DELTA parquet.`{engines.path(name)}` PARTITIONED BY (part STRING)")


def merged_columns(engines: Engines, name: str) -> None:
    frame = engines.spark.sql("SELECT id, id % 7 AS part, 'x' AS text, id / 3 AS more, named_struct('c', id) AS deep FROM range(50, 60)")
    frame.write.format("delta").mode("append").option("mergeSchema", "true").save(str(engines.path(name)))
    deeper = engines.spark.sql(
        "SELECT id, named_struct('d', 'e', 'c', id) AS deep FROM range(60, 70)"
    )
    deeper.write.format("delta").mode("append").option("mergeSchema", "true").save(str(engines.path(name)))


def overwritten(engines: Engines, name: str) -> None:
    frame = engines.spark.sql("SELECT id + 500 AS id, id % 2 AS part, 'over' AS text FROM range(20)")
    frame.where("part = 1").write.format("delta").mode("overwrite").option("replaceWhere", "part = 1").save(str(engines.path(name)))


def other_schema(engines: Engines, name: str) -> None:
    frame = engines.spark.sql("SELECT concat('n', id) AS id2, id, DATE'2024-01-01' + INT(id) AS day FROM range(20)")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(engines.path(name)))


BASE = "id BIGINT, part BIGINT, text STRING"
ODD_TEXTS = """('a b'), ('50%'), ('a/b'), ('k=v'), ('ä€😀'), ('q''uote'), ('a:b'), ('%20'), ('a+b'), ('#1?x=2&y'), ('[x]{y}'), ('a\\\\b'),
    (' lead'), ('trail '), ('.'), ('..'), ('tab\\t'), ('line\\nbreak'), (NULL), ('__HIVE_DEFAULT_PARTITION__x'), ('NULL'), ('"'), ('*'), ('~')"""
ALL_TYPES = """id BIGINT, a TINYINT, b SMALLINT, c INT, d FLOAT, e DOUBLE, f DECIMAL(9, 2), g DECIMAL(38, 18), h BOOLEAN, i STRING, j BINARY,
    k DATE, l TIMESTAMP, m TIMESTAMP_NTZ"""
ALL_ROWS = """INSERT INTO {t} VALUES
    (1, 1Y, 1S, 1, float(1.5), 1.5D, 1.25, 1.000000000000000001, true, 'one', X'0001FF', DATE'2024-02-29', TIMESTAMP'2024-02-29 12:34:56.789012', TIMESTAMP_NTZ'2024-02-29 12:34:56.789012'),
    (2, -128Y, -32768S, -2147483648, float('-Infinity'), double('-Infinity'), -9999999.99, -99999999999999999999.999999999999999999, false, '', X'', DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00', TIMESTAMP_NTZ'0001-01-01 00:00:00'),
    (3, 127Y, 32767S, 2147483647, float('NaN'), double('NaN'), 9999999.99, 99999999999999999999.999999999999999999, true, 'ä€😀', X'FF', DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'),
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (5, 0Y, 0S, 0, float(-0.0), -0.0D, 0, 0, false, 'a,"b"', X'00', DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP_NTZ'1582-10-04 00:00:00'),
    (6, 6Y, 6S, 6, float(6), 6D, 6, 6, true, 'six', X'06', DATE'1582-10-04', TIMESTAMP'1582-10-15 00:00:00', TIMESTAMP_NTZ'1970-01-01 00:00:00')"""

STRANGERS = [
    Stranger("plain", [created(BASE), filled(0, 40), filled(40, 60), "DELETE FROM {t} WHERE id % 10 = 3", "UPDATE {t} SET text = 'u' WHERE id = 5"]),
    Stranger("types", [created(ALL_TYPES), ALL_ROWS, "UPDATE {t} SET i = 'new' WHERE id = 6"]),
    Stranger("types_micros", [created(ALL_TYPES), ALL_ROWS, "DELETE FROM {t} WHERE id = 6"], settings={"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}),
    Stranger(
        "mapped",
        [
            created(f"{BASE}, gone INT, {NESTED}", MAPPED, VECTORS),
            f"INSERT INTO {{t}} SELECT id, id % 7, concat('t', id), 1, {NESTED_ROWS[4:]} FROM range(0, 30)",
            "ALTER TABLE {t} RENAME COLUMN text TO `new text`",
            "ALTER TABLE {t} DROP COLUMN gone",
            "ALTER TABLE {t} RENAME COLUMN pair.a TO a2",
            "ALTER TABLE {t} ADD COLUMN (text INT, pair.c DATE)",
            "UPDATE {t} SET text = INT(id) WHERE id < 9",
            "DELETE FROM {t} WHERE id = 20",
        ],
    ),
    Stranger(
        "mapped_by_id",
        [
            created(f"{BASE}, gone INT, {NESTED}", "'delta.columnMapping.mode' = 'id'"),
            f"INSERT INTO {{t}} SELECT id, id % 7, concat('t', id), 1, {NESTED_ROWS[4:]} FROM range(0, 30)",
            "ALTER TABLE {t} RENAME COLUMN text TO part2",
            "ALTER TABLE {t} DROP COLUMN gone",
            "ALTER TABLE {t} ADD COLUMN gone STRING AFTER id",
            "UPDATE {t} SET gone = 'back' WHERE id < 9",
        ],
    ),
    Stranger(
        "mapped_later",
        [
            created(BASE, clauses="PARTITIONED BY (part)"),
            filled(0, 30, "id, id % 3, concat('t', id)"),
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5', 'delta.columnMapping.mode' = 'name')",
            "ALTER TABLE {t} RENAME COLUMN part TO key",
            "ALTER TABLE {t} RENAME COLUMN text TO part",
            filled(30, 40, "id, 9, concat('t', id)"),
        ],
        # Versions without names of features ask for all of them.
        refused="columnMapping",
    ),
    Stranger(
        "mapped_names",
        [
            created("id BIGINT, `a b` STRING, `c.d` INT, `e,f;{}()=` DOUBLE, `Ä` INT", MAPPED, clauses="PARTITIONED BY (`c.d`)"),
            "INSERT INTO {t} SELECT id, concat('x', id), INT(id % 2), DOUBLE(id), INT(id) FROM range(0, 20)",
        ],
    ),
    Stranger(
        "vectors",
        [
            created(BASE, VECTORS),
            filled(0, 100),
            filled(100, 130),
            "DELETE FROM {t} WHERE id % 10 = 3",
            "UPDATE {t} SET text = concat(text, 'u') WHERE id % 10 = 4",
            """MERGE INTO {t} AS t USING (SELECT id * 5 AS id FROM range(40)) AS s ON t.id = s.id
               WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET text = 'merged'
               WHEN NOT MATCHED THEN INSERT (id, part, text) VALUES (s.id, -1, 'new')""",
            "DELETE FROM {t} WHERE id BETWEEN 100 AND 200",
        ],
    ),
    # Spark 3.5 widens no other types.
    Stranger(
        "widened",
        [
            created("id BIGINT, a TINYINT, b SMALLINT, c TINYINT, d STRUCT<x: TINYINT>, e MAP<INT, SMALLINT>", "'delta.enableTypeWidening' = 'true'"),
            "INSERT INTO {t} SELECT id, TINYINT(id), SMALLINT(id), TINYINT(id), struct(TINYINT(id)), map(INT(id), 1S) FROM range(20)",
            "ALTER TABLE {t} CHANGE COLUMN a TYPE SMALLINT",
            "ALTER TABLE {t} CHANGE COLUMN a TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN b TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN c TYPE SMALLINT",
            "ALTER TABLE {t} CHANGE COLUMN d.x TYPE INT",
            "ALTER TABLE {t} CHANGE COLUMN e.value TYPE INT",
            "INSERT INTO {t} VALUES (100, 100000, 100000, 1000S, struct(100000), map(1, 100000))",
        ],
    ),
    Stranger(
        "widened_partition",
        [
            created("id BIGINT, part SMALLINT", "'delta.enableTypeWidening' = 'true'", clauses="PARTITIONED BY (part)"),
            "INSERT INTO {t} SELECT id, SMALLINT(id % 3) FROM range(20)",
            "ALTER TABLE {t} CHANGE COLUMN part TYPE INT",
            "INSERT INTO {t} VALUES (100, 100000)",
        ],
    ),
    Stranger(
        "tracked",
        [
            created(BASE, "'delta.enableRowTracking' = 'true'", VECTORS),
            filled(0, 40),
            "DELETE FROM {t} WHERE id % 10 = 3",
            "UPDATE {t} SET text = 'u' WHERE id % 10 = 4",
            "OPTIMIZE {t}",
        ],
        still=True,
    ),
    Stranger(
        "tracked_later",
        [
            created(BASE, VECTORS),
            filled(0, 40),
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
            filled(40, 50),
            "DELETE FROM {t} WHERE id % 10 = 3",
        ],
        still=True,
    ),
    *[
        Stranger(
            f"checkpoints_{kind}",
            [created(BASE, "'delta.checkpointPolicy' = 'v2'", "'delta.checkpointInterval' = '3'", VECTORS)]
            + [filled(at * 10, at * 10 + 10) for at in range(7)]
            + ["DELETE FROM {t} WHERE id % 10 = 3"],
            settings={"spark.databricks.delta.v2.checkpoint.topLevelFileFormat": kind, "spark.databricks.delta.checkpoint.partSize": "2"},
        )
        for kind in ["json", "parquet"]
    ],
    Stranger(
        "checkpoints_in_parts",
        [created(BASE, "'delta.checkpointInterval' = '3'", clauses="PARTITIONED BY (part)")] + [filled(at * 10, at * 10 + 10) for at in range(7)],
        settings={"spark.databricks.delta.checkpoint.partSize": "2"},
    ),
    Stranger(
        "checkpoints_of_structs",
        [created(BASE, "'delta.checkpointInterval' = '2'", "'delta.checkpoint.writeStatsAsStruct' = 'true'", "'delta.checkpoint.writeStatsAsJson' = 'false'", clauses="PARTITIONED BY (part)")]
        + [filled(at * 10, at * 10 + 10) for at in range(4)],
    ),
    Stranger("timed", [created(BASE, "'delta.enableInCommitTimestamps' = 'true'"), filled(0, 20), "DELETE FROM {t} WHERE id = 3"]),
    Stranger("zoneless", [created("id BIGINT, at TIMESTAMP_NTZ"), "INSERT INTO {t} SELECT id, TIMESTAMP_NTZ'2024-01-01 00:00:00.123456' + make_interval(0, 0, 0, INT(id)) FROM range(20)"]),
    Stranger("generated", [generated, "INSERT INTO {t} (id, at) SELECT id, TIMESTAMP'2024-01-01 20:00:00' + make_interval(0, 0, 0, 0, INT(id)) FROM range(20)"], refused="generat"),
    Stranger("identity", [identity, "INSERT INTO {t} (id) SELECT id FROM range(20)"], refused="identity"),
    Stranger("constrained", [created(BASE), filled(0, 20), "ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 10000)"], refused="checkConstraints"),
    Stranger("not_null", [created("id BIGINT NOT NULL, part BIGINT, text STRING NOT NULL, pair STRUCT<a: INT NOT NULL>"), filled(0, 20, "id, id % 7, concat('t', id), struct(1)")]),
    Stranger("feed", [created(BASE, "'delta.enableChangeDataFeed' = 'true'"), filled(0, 20), "UPDATE {t} SET text = 'u' WHERE id < 5", "DELETE FROM {t} WHERE id > 15"], refused="changeDataFeed"),
    Stranger("feed_with_vectors", [created(BASE, VECTORS, "'delta.enableChangeDataFeed' = 'true'"), filled(0, 20), "DELETE FROM {t} WHERE id > 15"]),
    Stranger("clustered", [created(BASE, clauses="CLUSTER BY (part, text)"), filled(0, 40), filled(40, 80), "OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 7"]),
    Stranger("defaults", [created("id BIGINT, text STRING DEFAULT 'none'", "'delta.feature.allowColumnDefaults' = 'supported'"), "INSERT INTO {t} (id) VALUES (1), (2)", "ALTER TABLE {t} ADD COLUMN more INT"], refused="allowColumnDefaults"),
    Stranger("append_only", [created(BASE, "'delta.appendOnly' = 'true'"), filled(0, 20)], refused="appendOnly"),
    Stranger("iceberg_compatible", [created(BASE, MAPPED, "'delta.enableIcebergCompatV2' = 'true'"), filled(0, 20)], refused="icebergCompatV2"),
    Stranger("parts_of_text", [created("id BIGINT, part STRING", VECTORS, clauses="PARTITIONED BY (part)"), f"INSERT INTO {{t}} SELECT row_number() OVER (ORDER BY 1), * FROM VALUES {ODD_TEXTS}", "DELETE FROM {t} WHERE id = 1"]),
    Stranger(
        "parts_of_types",
        [
            created(ALL_TYPES.replace(" d FLOAT, e DOUBLE,", "").replace(" j BINARY,", ""), clauses="PARTITIONED BY (a, f, h, k, l, m)"),
            """INSERT INTO {t} VALUES
            (1, 1Y, 1S, 1, 1.25, 1, true, 'one', DATE'2024-02-29', TIMESTAMP'2024-02-29 12:34:56.789012', TIMESTAMP_NTZ'2024-02-29 12:34:56.789012'),
            (2, -128Y, 1S, 1, -9999999.99, 1, false, 'two', DATE'0001-01-01', TIMESTAMP'1969-12-31 23:59:59', TIMESTAMP_NTZ'0001-01-01 00:00:00'),
            (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            (4, 0Y, 1S, 1, 0, 1, true, 'four', DATE'9999-12-31', TIMESTAMP'2024-01-01 00:00:00', TIMESTAMP_NTZ'9999-12-31 23:59:59')""",
        ],
    ),
    Stranger(
        "parts_of_utc",
        [created("id BIGINT, at TIMESTAMP", clauses="PARTITIONED BY (at)"), "INSERT INTO {t} VALUES (1, TIMESTAMP'2024-02-29 12:34:56.789012'), (2, NULL), (3, TIMESTAMP'2024-01-01 00:00:00')"],
        settings={"spark.databricks.delta.write.utcTimestampPartitionValues": "true"},
    ),
    Stranger("parts_of_floats", [created("id BIGINT, d FLOAT, e DOUBLE", clauses="PARTITIONED BY (d, e)"), "INSERT INTO {t} VALUES (1, float(1.5), 2.5D), (2, float('NaN'), double('-Infinity')), (3, NULL, NULL), (4, float(1e10), 1e-300D)"]),
    Stranger("parts_of_bytes", [created("id BIGINT, part BINARY", clauses="PARTITIONED BY (part)"), "INSERT INTO {t} VALUES (1, X'61'), (2, X'62FE'), (3, NULL)"], refused="Binary"),
    Stranger(
        "nested",
        [
            created(f"id BIGINT, {NESTED}, deep ARRAY<ARRAY<INT>>, maps MAP<INT, ARRAY<MAP<STRING, DATE>>>"),
            f"INSERT INTO {{t}} SELECT {NESTED_ROWS}, array(array(1, NULL), array(), NULL), map(1, array(map('d', DATE'2024-01-01'))) FROM range(20)",
            "INSERT INTO {t} VALUES (100, NULL, NULL, NULL, NULL, NULL), (101, named_struct('a', NULL, 'b', NULL), array(), map(), array(), map())",
            "UPDATE {t} SET pair.b = 'set' WHERE id = 3",
        ],
    ),
    Stranger("merged_columns", [created(BASE), filled(0, 20), merged_columns, "ALTER TABLE {t} ADD COLUMN front INT FIRST", "ALTER TABLE {t} ALTER COLUMN text AFTER id"]),
    Stranger("replaced", [created(BASE, clauses="PARTITIONED BY (part)"), filled(0, 20, "id, id % 2, 'old'"), overwritten, other_schema, "INSERT INTO {t} VALUES ('z', 99, DATE'2025-01-01')"]),
    Stranger("emptied", [created(BASE), filled(0, 20), "DELETE FROM {t}", filled(20, 25), "DELETE FROM {t} WHERE id >= 0"]),
    Stranger("empty", [created(BASE)]),
    Stranger("restored", [created(BASE, VECTORS), filled(0, 20), "DELETE FROM {t} WHERE id < 10", "RESTORE TABLE {t} TO VERSION AS OF 1", "DELETE FROM {t} WHERE id = 1"]),
    Stranger("optimized", [created(BASE), filled(0, 20), filled(20, 40), "OPTIMIZE {t} ZORDER BY (part)", "DELETE FROM {t} WHERE id % 10 = 3", "VACUUM {t} RETAIN 0 HOURS", filled(40, 50)]),
    Stranger("purged", [created(BASE, VECTORS), filled(0, 40), "DELETE FROM {t} WHERE id % 10 = 3", "REORG TABLE {t} APPLY (PURGE)", "DELETE FROM {t} WHERE id = 5", "VACUUM {t} RETAIN 0 HOURS"]),
    Stranger("converted", [converted, "DELETE FROM {t} WHERE id = 3"]),
    Stranger("uncounted", [created(BASE, VECTORS), filled(0, 20), "ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')", filled(20, 40)], settings={"spark.databricks.delta.stats.collect": "false"}),
    Stranger("prefixed", [created(BASE, "'delta.randomizeFilePrefixes' = 'true'", MAPPED, clauses="PARTITIONED BY (part)"), filled(0, 20), "DELETE FROM {t} WHERE id = 3"]),
    Stranger("dropped_feature", [created(BASE, VECTORS), filled(0, 20), "DELETE FROM {t} WHERE id = 3", "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')", "REORG TABLE {t} APPLY (PURGE)", filled(20, 30)]),
]
BY_NAME = {stranger.name: stranger for stranger in STRANGERS}
