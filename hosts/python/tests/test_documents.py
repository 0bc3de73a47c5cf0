"""What the documents show runs: docstrings, docs/python.md, the README's lines. Stubs name what
there is."""

import ast
import doctest
import os
import re
from pathlib import Path

import pagecast
import pagecast._pagecast
import pagecast._policy
import pagecast._simulate
import pytest

ROOT = Path(os.environ.get("PAGECAST_ROOT", Path(__file__).parents[3]))
OF_RUST = [pagecast.Trace, pagecast.generate]


@pytest.mark.parametrize("module", [pagecast, pagecast._policy, pagecast._simulate], ids=lambda m: m.__name__)
def test_docstrings_of_python(module) -> None:
    failed, tried = doctest.testmod(module)
    assert tried > 0 and failed == 0


@pytest.mark.parametrize("of", OF_RUST, ids=lambda of: of.__name__)
def test_docstrings_of_rust(of) -> None:
    test = doctest.DocTestParser().get_doctest(of.__doc__, {}, of.__name__, None, None)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0


def test_the_document_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = ROOT / "docs/python.md"
    monkeypatch.chdir(tmp_path)
    # The fence that ends an example would be taken for its output.
    text = re.sub(r"^```.*$", "", document.read_text(), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, "python.md", str(document), 0)
    assert test.examples and doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


@pytest.mark.parametrize("document", ["README.md", "hosts/python/README.md"])
def test_the_first_lines_run(document: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
    # SQL is in a wheel of its own, whose tests run its lines.
    blocks = [block for block in blocks if "connect(" not in block]
    assert blocks
    for block in blocks:
        exec(compile(block, document, "exec"), {})


def test_sql_is_named_where_it_is_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pagecast\[sql\]'"):
        pagecast.connect("data")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pagecast.nothing


def test_stubs_name_what_there_is() -> None:
    stub = ast.parse((Path(pagecast.__file__).parent / "_pagecast.pyi").read_text())
    there = {name for name in dir(pagecast._pagecast) if not name.startswith("__")} | {"__version__"}
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)} | {"__version__"}
    assert named == there
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and node.name != "TraceError":
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            of = getattr(pagecast._pagecast, node.name)
            public = {name for name in vars(of) if not name.startswith("__")}
            assert {name for name in methods if not name.startswith("__")} == public, node.name
    assert (Path(pagecast.__file__).parent / "py.typed").exists()
