"""Results and traces as Arrow: everybody gets the same numbers, and nobody copies them."""

import numpy as np
import pagecast
import pandas
import polars
import pyarrow

IDS = (np.random.default_rng(3).zipf(1.2, 20_000) % 900).astype(np.uint64)
RESULT = pagecast.simulate(IDS, "lru,arc,opt", [10, 100, "50%"])


def address(table: pyarrow.Table, column: str) -> int:
    return table[column].chunk(0).buffers()[1].address


def test_pyarrow_polars_and_pandas_agree() -> None:
    rows = RESULT.rows()
    assert pyarrow.table(RESULT).to_pylist() == rows
    assert polars.DataFrame(RESULT).to_dicts() == rows
    frame = pandas.DataFrame.from_arrow(RESULT)
    assert frame["misses"].tolist() == [row["misses"] for row in rows]
    assert list(frame.columns) == RESULT.columns


def test_no_copy_is_made() -> None:
    # Everybody's column lies in the same memory. pandas copies into blocks of its own, unless it is
    # told to keep Arrow's types.
    where = address(pyarrow.table(RESULT), "misses")
    assert address(pyarrow.table(RESULT), "misses") == where
    assert polars.DataFrame(RESULT)["misses"].to_arrow().buffers()[1].address == where
    frame = pyarrow.table(RESULT).to_pandas(types_mapper=pandas.ArrowDtype)
    assert address(pyarrow.Table.from_pandas(frame), "misses") == where


def test_memory_outlives_the_result() -> None:
    table = pyarrow.table(pagecast.simulate(IDS, "lru", list(range(1, 400))))
    pagecast.simulate(IDS, "lru", 10)
    assert len(table) == 399 and min(table["misses"].to_pylist()) >= 1


def test_missing_values_are_null() -> None:
    assert polars.DataFrame(RESULT)["ticks"].null_count() == len(RESULT)
    logical = pagecast.simulate(IDS, "lru", 10, latency=5)
    assert polars.DataFrame(logical)["ticks"].null_count() == 0


def test_traces_are_tables_too() -> None:
    scans = np.where(np.arange(len(IDS)) % 2 == 0, -1, 3)
    table = polars.DataFrame(pagecast.Trace(IDS, scans=scans, writes=IDS % 2 == 0))
    assert table.columns == ["page", "write", "stream", "scan"]
    assert np.array_equal(table["page"].to_numpy(), IDS)
    assert table["scan"].null_count() == len(IDS) // 2
    assert table["write"].sum() == int((IDS % 2 == 0).sum())


def test_arrays_of_every_kind_are_read_in_place() -> None:
    want = pagecast.simulate(IDS % 100, "lru", 20).rows()[0]["misses"]
    for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
        assert pagecast.simulate((IDS % 100).astype(kind), "lru", 20).rows()[0]["misses"] == want, kind
    assert pagecast.simulate(memoryview((IDS % 100).astype("u8")), "lru", 20).rows()[0]["misses"] == want
    assert pagecast.simulate(polars.Series(IDS % 100).to_numpy(), "lru", 20).rows()[0]["misses"] == want
    # An array that only reads can be lent, too.
    frozen = IDS % 100
    frozen.flags.writeable = False
    assert pagecast.simulate(frozen, "lru", 20).rows()[0]["misses"] == want
