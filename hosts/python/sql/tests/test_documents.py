"""What the documents show runs: docstrings, docs/python.md, the README's lines. Stubs name what
there is."""

import doctest
import os
from pathlib import Path

import documents
import pagecast
import pagecast_sql._connection
import pagecast_sql._engine
import pyarrow
import pyarrow.parquet
import pytest

ROOT = Path(os.environ.get("PAGECAST_ROOT", Path(__file__).parents[4]))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `data` of the examples, with a thousand orders."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    states = ["open", "paid"] * 500
    orders = pyarrow.table({"id": range(1000), "state": states, "amount": [i * 0.5 for i in range(1000)]})
    pyarrow.parquet.write_table(orders, tmp_path / "data/orders.parquet")
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["connect", *(name for name in dir(pagecast.Connection) if not name.startswith("_"))])
def test_docstrings(folder: Path, name: str) -> None:
    of = pagecast.connect if name == "connect" else getattr(pagecast.Connection, name)
    assert of.__doc__
    with pagecast.connect(folder) as connection:
        names = {"data": folder, "connection": connection}
        test = doctest.DocTestParser().get_doctest(of.__doc__, names, name, None, None)
        assert test.examples or name == "close"
        assert doctest.DocTestRunner().run(test).failed == 0


def test_the_document_runs(folder: Path) -> None:
    documents.run_examples(ROOT / "docs/python.md", "SQL")


@pytest.mark.parametrize("document", ["README.md", "hosts/python/sql/README.md"])
def test_the_first_lines_run(folder: Path, document: str) -> None:
    documents.run_blocks(ROOT / document, lambda block: "connect(" in block)


def test_connect_is_that_of_the_simulator() -> None:
    assert pagecast.connect is pagecast_sql.connect and pagecast.SqlError is pagecast_sql.SqlError
    assert "connect" in dir(pagecast)
    assert pagecast.__version__ == pagecast_sql.__version__


def test_stubs_name_what_there_is() -> None:
    documents.check_stub(pagecast_sql, pagecast_sql._engine)
