"""Tables to ask: a folder of Parquet, CSV and Delta, and the command that reads the same."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pagecast
import pyarrow
import pyarrow.parquet
import pytest

ROWS = 100_000
# Ten row groups, so that scans have chunks to choose from.
ROW_GROUP = 10_000


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables `orders` (Parquet), `days` (CSV) and `broken`."""
    folder = tmp_path_factory.mktemp("data")
    numbers = np.random.default_rng(1)
    ids = np.arange(ROWS)
    orders = pyarrow.table({
        "id": ids,
        "amount": pyarrow.array(numbers.integers(0, 10_000, ROWS, dtype=np.int32)).cast(pyarrow.decimal128(15, 2)),
        "price": numbers.normal(size=ROWS),
        "state": pyarrow.array(np.array(["open", "paid", "sent", None], dtype=object)[ids % 4]),
        "day": pyarrow.array(19_000 + ids // 1000, pyarrow.int32()).cast(pyarrow.date32()),
        "at": pyarrow.array(ids * 1_000_000, pyarrow.timestamp("us")),
    })
    pyarrow.parquet.write_table(orders, folder / "orders.parquet", row_group_size=ROW_GROUP)
    (folder / "days.csv").write_text("day,name\n1,Monday\n2,Tuesday\n")
    return folder


@pytest.fixture
def connection(data: Path) -> Iterator[pagecast.Connection]:
    with pagecast.connect(data, memory="16MiB") as connection:
        yield connection


@pytest.fixture(scope="session")
def command() -> Callable[[Path, str], str]:
    """What the command prints for a statement, as CSV."""
    path = os.environ["PAGECAST"]

    def run(data: Path, sql: str) -> str:
        arguments = [path, "sql", "--data", str(data), "--format", "csv", "-q", "-c", sql]
        return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout

    return run
