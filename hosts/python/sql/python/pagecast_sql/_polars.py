"""Results as polars LazyFrames, by polars' interface for IO plugins."""

import datetime
import json
import warnings
from collections.abc import Iterator
from typing import Any

import polars
from polars.io.plugins import register_io_source

from pagecast_sql._result import Result

OPERATORS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}


def scan(result: Result) -> polars.LazyFrame:
    """A LazyFrame that runs the query for the columns and rows that are asked for."""
    statement = result._statement
    schema = polars.Schema(result)

    def rows(
        columns: list[str] | None,
        predicate: polars.Expr | None,
        most: int | None,
        batch_size: int | None,
    ) -> Iterator[polars.DataFrame]:
        # The first rows are those before the predicate, if polars ever asks for both.
        asked = None if predicate is None or most is not None else in_sql(predicate, schema)
        # The predicate is applied again here, to what SQL may have kept too much of.
        needed = columns
        if columns is not None and predicate is not None:
            others = [name for name in predicate.meta.root_names() if name not in columns]
            needed = columns + others
        for batch in statement.narrowed(needed, asked, most).stream():
            frame = polars.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if columns is None else frame.select(columns)

    return register_io_source(rows, schema=schema, explain_name="pagecast")


def in_sql(predicate: polars.Expr, schema: polars.Schema) -> str | None:
    """The parts of a predicate that mean the same in SQL, or nothing.

    polars gives expressions as JSON alone, and promises nothing of its form. So what is not known
    stays with polars, which looks at each row anyway.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = json.loads(predicate.meta.serialize(format="json"))
        except (ValueError, TypeError, polars.exceptions.PolarsError):
            return None
    parts = [comparison(part, schema) for part in conjuncts(tree)]
    return " AND ".join(part for part in parts if part is not None) or None


def conjuncts(tree: Any) -> Iterator[Any]:
    """What must all be true."""
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            yield from conjuncts(left)
            yield from conjuncts(right)
        case _:
            yield tree


def comparison(tree: Any, schema: polars.Schema) -> str | None:
    """A column beside a literal."""
    match tree:
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": op, "right": {"Literal": value}}}:
            operator, text = OPERATORS.get(op), literal(value, schema.get(name))
            if operator is not None and text is not None:
                quoted = name.replace('"', '""')
                return f'"{quoted}" {operator} {text}'
    return None


def literal(value: Any, kind: polars.DataType | None) -> str | None:
    """A value as SQL has it, for a column of its kind.

    Floats stay with polars: for it 0 and -0 are the same, for SQL they are not.
    """
    if kind is None:
        return None
    match value:
        case {"Dyn": {"Int": int(number)}} if kind.is_integer() or kind.is_decimal():
            return str(number)
        case {"Scalar": {"String": str(text)}} if kind == polars.String:
            return "'" + text.replace("'", "''") + "'"
        case {"Scalar": {"Date": int(days)}} if kind == polars.Date:
            return f"DATE '{datetime.date(1970, 1, 1) + datetime.timedelta(days)}'"
        case {"Scalar": scalar} if kind.is_integer() and isinstance(scalar, dict) and len(scalar) == 1:
            (number,) = scalar.values()
            return str(number) if type(number) is int else None
    return None
