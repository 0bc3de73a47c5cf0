"""What the documents show runs: docstrings, docs/python-sql.md, the README's lines. Stubs name what
there is."""

import ast
import doctest
import os
import re
from pathlib import Path

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
    document = ROOT / "docs/python-sql.md"
    # The fence that ends an example would be taken for its output.
    text = re.sub(r"^```.*$", "", document.read_text(), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, document.name, str(document), 0)
    assert test.examples and doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


@pytest.mark.parametrize("document", ["README.md", "hosts/python/sql/README.md"])
def test_the_first_lines_run(folder: Path, document: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
    assert any("connect(" in block for block in blocks)
    for block in blocks:
        exec(compile(block, document, "exec"), {})


def test_connect_is_that_of_the_simulator() -> None:
    assert pagecast.connect is pagecast_sql.connect and pagecast.SqlError is pagecast_sql.SqlError
    assert "connect" in dir(pagecast)
    assert pagecast.__version__ == pagecast_sql.__version__


def test_stubs_name_what_there_is() -> None:
    stub = ast.parse((Path(pagecast_sql.__file__).parent / "_engine.pyi").read_text())
    there = {name for name in dir(pagecast_sql._engine) if not name.startswith("__")} | {"__version__"}
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)} | {"__version__"}
    assert named == there
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and node.name != "SqlError":
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            of = getattr(pagecast_sql._engine, node.name)
            public = {name for name in vars(of) if not name.startswith("__")}
            assert {name for name in methods if not name.startswith("__")} == public, node.name
            assert all(hasattr(of, name) for name in methods), node.name
    assert (Path(pagecast_sql.__file__).parent / "py.typed").exists()
