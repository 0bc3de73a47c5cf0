"""What the documents show runs: docstrings, docs/python.md, the README's lines. Stubs name what
there is."""

import doctest
import os
from pathlib import Path

import documents
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
    monkeypatch.chdir(tmp_path)
    documents.run_examples(ROOT / "docs/python.md", "Simulation")


def test_the_first_lines_run() -> None:
    documents.run_blocks(ROOT / "hosts/python/README.md", lambda block: True)


def test_sql_is_named_where_it_is_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pagecast\[sql\]'"):
        pagecast.connect("data")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pagecast.nothing


def test_stubs_name_what_there_is() -> None:
    documents.check_stub(pagecast, pagecast._pagecast)
