"""Both engines over one folder of tables: Spark with delta-spark, and the pagecast command.

Spark judges: results of ours are Parquet files that it reads, and rows are compared as the texts
that it makes of them.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from delta import configure_spark_with_delta_pip
from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.typeWidening.enabled": "true",
    # Dates before 1582 are as the rest of the world counts them.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.ui.enabled": "false",
    # Tables are tiny: compiling costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.default.parallelism": "1",
    "spark.log.level": "ERROR",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def start_spark(folder: Path) -> SparkSession:
    """A session on this machine, which keeps what it writes of itself in `folder`."""
    builder = SparkSession.builder.master("local[2]").appName("pagecast-delta")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder))
    if "PAGECAST_IVY" in os.environ:
        builder = builder.config("spark.jars.ivy", os.environ["PAGECAST_IVY"])
    return configure_spark_with_delta_pip(builder).getOrCreate()


class Refused(Exception):
    """What pagecast has said instead of a result."""


class Engines:
    """Runs the same on tables of `lake` by Spark and by us."""

    def __init__(self, spark: SparkSession, lake: Path):
        self.spark, self.lake = spark, lake
        self.command = os.environ["PAGECAST"]

    def path(self, table: str) -> Path:
        return self.lake / table

    def theirs(self, table: str, sql: str) -> DataFrame:
        """`{t}` is the table."""
        return self.spark.sql(sql.replace("{t}", f"delta.`{self.path(table)}`"))

    def pagecast(self, table: str, sql: str, *flags: str) -> None:
        """Runs statements; `{t}` is the table."""
        self.without_data(table, sql, "--data", str(self.path(table)), *flags)

    def without_data(self, table: str, sql: str, *flags: str) -> None:
        """The same where the statements make the table."""
        command = [self.command, "sql", "-q", *flags, "-c", sql.replace("{t}", f'"{table}"')]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            assert "panicked" not in run.stderr, run.stderr
            raise Refused(run.stderr.strip())

    def ours(self, table: str, sql: str, *flags: str) -> DataFrame:
        """A result of ours, as Spark reads it."""
        file = tempfile.mktemp(suffix=".parquet", dir=self.lake / "results")
        self.pagecast(table, sql, "--format", "parquet", "-o", file, *flags)
        return self.spark.read.parquet(file)

    def twin(self, table: str, name: str) -> str:
        """A copy of the table, which then goes its own way."""
        shutil.copytree(self.path(table), self.path(name))
        return name

    def versions(self, table: str) -> list[int]:
        """Those that have files in the log, be it beside a checkpoint."""
        log = (self.path(table) / "_delta_log").glob("*.json")
        names = [file.name.split(".") for file in log]
        return sorted(int(name[0]) for name in names if len(name) == 2 and name[0].isdigit())


def rows(frame: DataFrame) -> list[str]:
    """The rows as texts, in order. Types are part of them."""
    shape = frame.schema.simpleString()
    texts = frame.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) AS text").collect()
    return [shape, *sorted(text[0] for text in texts)]


def differences(ours: list[str], theirs: list[str]) -> str:
    """The first lines that only one of both has."""
    own, other = [line for line in ours if line not in theirs], [line for line in theirs if line not in ours]
    counts = f"{len(ours) - 1} rows of ours, {len(theirs) - 1} of Spark"
    return json.dumps({"counts": counts, "only ours": own[:4], "only Spark": other[:4]}, indent=1, ensure_ascii=False)


def same(ours: DataFrame, theirs: DataFrame, about: str) -> None:
    """Fails with the rows that differ."""
    left, right = rows(ours), rows(theirs)
    assert left == right, f"{about}\n{differences(left, right)}"
