#!/usr/bin/env python3
"""What `make lint` asks of comments and documents; prints each fault with file and line.

* No comment and no line of a document is longer than 100 columns. Tables, and lines without a
  place to break, are excepted, and so is code in the examples of doc comments.
* The header of a policy has at most 15 lines.
* A link of a document leads to a file that exists, and so does each `docs/` or `lab/` file that
  a comment names. Only CONTRIBUTING.md and lab/ itself link to lab/.
* The glossary has at most 40 words, each defined in one sentence of at most 25 words.
* Documents of users have at most the words of `MOST_WORDS`, and no ratio that was measured: those
  stand in docs/results.md, docs/reproduction.md and the README's table, which are written by
  `make results` and `make reproduction`.

`--sentences` lists the longest sentences of the documents instead; it never fails.
"""

import ast
import io
import itertools
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

COLUMNS = 100
LINES_OF_A_HEADER = 15
WORDS_OF_A_SENTENCE = 25
WORDS_OF_THE_GLOSSARY = 40
GLOSSARY = "docs/glossary.md"
# All documents of users together, but the results.
MOST_WORDS = 17_500
# Written by `make results` and `make reproduction`, as is what stands in the README between two
# marks.
RESULTS = ("docs/results.md", "docs/reproduction.md")
_WRITTEN = re.compile(r"<!-- results: .*?<!-- end of results -->", re.DOTALL)
_RATIO = re.compile(r"(?<![\w.`-])(?<!Rust )(?<!Python )(?<!from )[0-9]\.[0-9]{2}(?![\w.])")
POLICIES = ("crates/pagecast-core/src/policy/", "crates/pagecast-core/src/steering.rs")
# Published by others, and kept as they are.
FOREIGN = ("crates/pagecast-sim/assets/",)

# Strings come first, so that no comment begins inside one.
_C_LIKE = re.compile(
    r'r(?P<raw>#*)".*?"(?P=raw)|"(?:\\.|[^"\\])*"|\'(?:\\[^\']+|[^\'\\\n])\''
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAMED = re.compile(r"\b(?:docs|lab)/[\w-]+\.md\b")


def tracked() -> list[str]:
    """The files of the repository that people wrote."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    return [name for name in listed if not name.startswith(FOREIGN) and Path(name).is_file()]


def comments(name: str, text: str) -> Iterator[tuple[int, int, str]]:
    """Every comment of a source file: its first line, its first column, its text; from 0."""
    if name.endswith((".rs", ".c", ".h")):
        starts = [0, *(found.end() for found in re.finditer("\n", text))]
        line = 0
        for found in _C_LIKE.finditer(text):
            if found["comment"]:
                while line + 1 < len(starts) and starts[line + 1] <= found.start():
                    line += 1
                yield line, found.start() - starts[line], found["comment"]
    elif name.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0] - 1, token.start[1], token.string
        for line, end in docstrings(text):
            lines = text.splitlines()[line:end]
            yield line, 0, "\n".join(lines)
    elif name.endswith(".sh") or name.endswith("Makefile") or name == ".ci/run":
        mark = re.compile(r"(?:^\s*|\s)#.*" if name.endswith("Makefile") else r"^\s*#.*")
        for number, content in enumerate(text.splitlines()):
            if found := mark.search(content):
                yield number, found.start(), found.group()


def docstrings(text: str) -> Iterator[tuple[int, int]]:
    """The first line of each docstring of a Python file, and the one behind its last; from 0."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0].lineno - 1, node.body[0].end_lineno


def prose(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines of Markdown that are not code, with their numbers."""
    fenced = False
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def unbroken(name: str, text: str) -> Iterator[int]:
    """The lines that are too long, from 0."""
    lines = text.splitlines()
    if name.endswith(".md"):
        yield from (number for number, line in enumerate(lines) if too_long(line, line))
        return
    of_comments: dict[int, str] = {}
    for first, _, comment in comments(name, text):
        for offset, content in enumerate(comment.split("\n")):
            of_comments.setdefault(first + offset, content)
    bare = {number: re.sub(r"^\s*(?://[/!]?|/?\*+|#+)? ?", "", content)
            for number, content in of_comments.items()}
    # An example runs through neighbouring lines of comments.
    fenced, before = False, -2
    for number in sorted(bare):
        fenced = fenced and number == before + 1
        before = number
        if _FENCE.match(bare[number]):
            fenced = not fenced
        elif not fenced and too_long(lines[number], bare[number]):
            yield number


def too_long(line: str, content: str) -> bool:
    """Whether a line goes on too far although its text could be broken."""
    if len(line) <= COLUMNS or content.lstrip().startswith("|"):
        return False
    # What is broken begins behind a mark of a list; the words up to the border are what can stay.
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s", "", content).lstrip()
    return " " in text[:COLUMNS - (len(line) - len(text))]


def header(text: str) -> int:
    """How many lines the comment has that opens a Rust file."""
    return len(list(itertools.takewhile(lambda line: line.startswith("//!"), text.splitlines())))


def misled(name: str, text: str, files: set[str]) -> Iterator[tuple[int, str]]:
    """Names of files that do not exist, and links to the notes from where they do not belong."""
    lines = text.splitlines()
    if not name.endswith(".md"):
        for number, line in enumerate(lines):
            for named in _NAMED.findall(line):
                if named not in files:
                    yield number, f"there is no {named}"
        return
    for number, line in prose(lines):
        for target in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
            path, _, heading = target.partition("#")
            if re.match(r"\w+:", path):
                continue
            leads = (Path(name).parent / path if path else Path(name)).resolve()
            inside = leads.is_relative_to(Path.cwd()) and leads.exists()
            leads = leads.relative_to(Path.cwd()) if inside else leads
            if not inside or heading and heading not in headings(leads):
                yield number, f"the link to {target} leads nowhere"
            elif leads.parts[:1] == ("lab",) and not name.startswith(("lab/", "CONTRIBUTING")):
                yield number, f"only CONTRIBUTING.md links to lab/, and this links to {target}"


def headings(path: Path) -> list[str]:
    """The names by which links lead to the headings of a document."""
    found = [line.lstrip("#").strip() for _, line in prose(path.read_text().splitlines())
             if line.startswith("#")]
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found]


def glossary(text: str) -> Iterator[tuple[int, str]]:
    """What is wrong with the glossary."""
    rows = [(number, [cell.strip() for cell in line.strip("|").split("|")])
            for number, line in enumerate(text.splitlines()) if line.startswith("| **")]
    if not 0 < len(rows) <= WORDS_OF_THE_GLOSSARY:
        yield 0, f"{len(rows)} words, and there should be at most {WORDS_OF_THE_GLOSSARY}"
    for number, (word, meaning) in rows:
        if len(sentences(meaning)) != 1 or len(meaning.split()) > WORDS_OF_A_SENTENCE:
            yield number, f"{word} takes more than a sentence of {WORDS_OF_A_SENTENCE} words"


def is_of_users(name: str) -> bool:
    """Whether users read it: a document, but not the results and the notes."""
    return name.endswith(".md") and name not in RESULTS and not name.startswith("lab/")


def measured_by_hand(text: str) -> Iterator[tuple[int, str]]:
    """The ratios in prose and tables that nobody but a person wrote."""
    text = _WRITTEN.sub(lambda found: "\n" * found.group().count("\n"), text)
    for number, line in prose(text.splitlines()):
        if found := _RATIO.search(re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)):
            yield number, f"{found.group()} looks measured: what is measured stands in {RESULTS[0]}"


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return [part for part in re.split(r"(?<=[.!?])(?:\*\*)?\s+", text.strip()) if part]


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and points of lists, each with its first line; neither tables nor headings."""
    first, gathered, before = 0, [], -1
    for number, line in [*prose(text.splitlines()), (-1, "")]:
        begins = re.match(r"\s*(?:[-*]|\d+\.)\s+", line)
        ends = not line.strip() or line.lstrip().startswith(("|", "#")) or number != before + 1
        if (begins or ends) and gathered:
            yield first, " ".join(gathered)
            gathered = []
        if line.strip() and not line.lstrip().startswith(("|", "#")):
            first = first if gathered else number
            gathered.append(line[begins.end():] if begins else line.strip())
        before = number


def list_sentences(files: list[str]) -> None:
    """Prints the sentences that have too many words, the longest first."""
    found = []
    for name in files:
        if name.endswith(".md") and not name.startswith("lab/"):
            for number, paragraph in paragraphs(Path(name).read_text()):
                found += [(len(sentence.split()), name, number + 1, sentence)
                          for sentence in sentences(paragraph)]
    for words, name, number, sentence in sorted(found, reverse=True):
        if words > WORDS_OF_A_SENTENCE:
            print(f"{words} words: {name}:{number}: {sentence}")


def main() -> int:
    files = tracked()
    if sys.argv[1:] == ["--sentences"]:
        list_sentences(files)
        return 0
    faults = []
    words = sum(len(Path(name).read_text().split()) for name in files if is_of_users(name))
    if words > MOST_WORDS:
        faults.append(("docs", 0, f"users' documents have {words} words, and may have {MOST_WORDS}"))
    for name in files:
        if not name.endswith((".md", ".rs", ".c", ".h", ".py", ".sh", "Makefile", ".ci/run")):
            continue
        text = Path(name).read_text()
        faults += [(name, number, f"longer than {COLUMNS} columns")
                   for number in unbroken(name, text)]
        faults += [(name, *fault) for fault in misled(name, text, set(files))]
        if name.startswith(POLICIES) and header(text) > LINES_OF_A_HEADER:
            faults.append((name, 0, f"a header of more than {LINES_OF_A_HEADER} lines"))
        if is_of_users(name):
            faults += [(name, *fault) for fault in measured_by_hand(text)]
        if name == GLOSSARY:
            faults += [(name, *fault) for fault in glossary(text)]
    for name, number, what in faults:
        print(f"{name}:{number + 1}: {what}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
