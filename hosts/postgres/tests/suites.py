"""What `tests.regress` takes for a difference where rows may come in another order, on outputs made
up for it."""

import unittest

from tests.row_order import differences

_PSQL = """select a, b from few;
 a |   b    
---+--------
 1 | one
 2 | two   +
   | lines
 3 | three
(3 rows)

-- done
"""
_ISOLATION = """starting permutation: r1 w1
step r1: SELECT * FROM few;
a|b  
-+---
1|one
2|two
(2 rows)

step w1: UPDATE few SET a = 3;
"""
_LISTED = {"select a, b from few;": "no order by", "step r1: SELECT * FROM few;": "no order by"}


class RowOrder(unittest.TestCase):
    """Two outputs, of which one was changed in one place."""

    def assert_difference(self, expected: str, changed: str, of: str, listed: dict[str, str] = _LISTED) -> None:
        """One difference that says this, and nothing allowed."""
        self.assertNotEqual(of, changed, "the output was changed")
        allowed, found = differences(changed, of, listed)
        self.assertEqual([], allowed)
        self.assertRegex("\n".join(found), expected)

    def test_equal(self) -> None:
        """Nothing is found, and nothing had to be allowed."""
        self.assertEqual(([], []), differences(_PSQL, _PSQL, {}))
        self.assertEqual(([], []), differences(_ISOLATION, _ISOLATION, {}))

    def test_another_order(self) -> None:
        """Is allowed below a statement that is listed, with rows of several lines kept whole."""
        psql = _PSQL.replace(" 1 | one\n 2 | two   +\n   | lines\n", " 2 | two   +\n   | lines\n 1 | one\n")
        isolation = _ISOLATION.replace("1|one\n2|two\n", "2|two\n1|one\n")
        for changed, stock, statement in ((psql, _PSQL, "select a, b from few;"), (isolation, _ISOLATION, "step r1: SELECT * FROM few;")):
            self.assertNotEqual(stock, changed)
            self.assertEqual(([statement], []), differences(changed, stock, _LISTED))
            self.assert_difference("not listed", changed, stock, {})

    def test_other_rows(self) -> None:
        """A row more, less, twice or of another value is a difference."""
        self.assert_difference("nine", _PSQL.replace("one", "nine"), _PSQL)
        self.assert_difference(r"3 \| three", _PSQL.replace(" 3 | three\n(3 rows)", "(2 rows)"), _PSQL)
        self.assert_difference("stock", _PSQL.replace(" 3 | three", " 1 | one"), _PSQL)
        self.assert_difference("2|one", _ISOLATION.replace("1|one", "2|one"), _ISOLATION)

    def test_lines_of_a_row(self) -> None:
        """A line that has moved to another row makes other rows."""
        self.assert_difference("lines", _PSQL.replace(" 1 | one\n 2 | two   +\n", " 2 | two\n 1 | one   +\n"), _PSQL)

    def test_another_shape(self) -> None:
        """So are a column's width, a header, and any line outside of rows."""
        self.assert_difference("b     ", _PSQL.replace("   b    ", "   b     ").replace("--------", "---------"), _PSQL)
        self.assert_difference("ready", _PSQL.replace("-- done", "-- ready"), _PSQL)
        self.assert_difference("lines and results", _PSQL + "more\n", _PSQL)
        self.assert_difference("WARNING", _PSQL.replace(" a |", "WARNING:  slow\n a |"), _PSQL)

    def test_lines_that_are_no_rows(self) -> None:
        """Whatever is not a whole result with its count may not change its order."""
        description = """\\d few
    Table "few"
 Column | Type 
--------+------
 a      | int
 b      | text

"""
        changed = description.replace(" a      | int\n b      | text\n", " b      | text\n a      | int\n")
        self.assert_difference("b      | text", changed, description, {"    Table \"few\"": "never"})
