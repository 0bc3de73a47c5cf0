"""What the tests of both wheels ask of documents and stubs."""

import ast
import doctest
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType


def run_examples(document: Path, heading: str) -> None:
    """Runs the examples below a heading of a document one after the other, and compares what they
    print."""
    _, _, text = document.read_text().partition(f"\n## {heading}\n")
    text, _, _ = text.partition("\n## ")
    # The fence that ends an example would be taken for its output.
    text = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, document.name, str(document), 0)
    assert test.examples and doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


def run_blocks(document: Path, wanted: Callable[[str], bool]) -> None:
    """Runs the blocks of Python of a document that are wanted, of which there must be some."""
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)
    blocks = [block for block in blocks if wanted(block)]
    assert blocks
    for block in blocks:
        exec(compile(block, document.name, "exec"), {})


def check_stub(package: ModuleType, extension: ModuleType) -> None:
    """A package is typed, and the stub of its extension module names what there is."""
    folder = Path(package.__file__).parent
    assert (folder / "py.typed").exists()
    stub = ast.parse((folder / f"{extension.__name__.rpartition('.')[2]}.pyi").read_text())
    there = {name for name in dir(extension) if not name.startswith("__")} | {"__version__"}
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef | ast.ClassDef)} | {"__version__"}
    assert named == there
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and not issubclass(of := getattr(extension, node.name), Exception):
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            public = {name for name in vars(of) if not name.startswith("__")}
            assert {name for name in methods if not name.startswith("__")} == public, node.name
            assert all(hasattr(of, name) for name in methods), node.name
