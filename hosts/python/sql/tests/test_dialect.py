"""One dialect: the table by which the server, Flight SQL and the shell are compared."""

from pathlib import Path

import pagecast
import pyarrow

ANSWERS = Path(__file__).parents[4] / "crates/pagecast-cli/tests/serve/dialect.tsv"


def answer(connection: pagecast.Connection, expression: str) -> str:
    """The rows of an expression as texts of PostgreSQL, or ERR."""
    try:
        given = connection.sql(f"SELECT {expression}").to_arrow()
        names = [f"c{number}" for number in range(given.num_columns)]
        texts = ", ".join(f"{name}::text" for name in names)
        rows = connection.sql(f"SELECT {texts} FROM (SELECT {expression}) AS t({', '.join(names)})").to_arrow()
    except (pagecast.SqlError, ValueError):
        return "ERR"
    truth = [pyarrow.types.is_boolean(kind) for kind in given.schema.types]

    def shown(value: str | None, is_truth: bool) -> str:
        return "NULL" if value is None else value[0] if is_truth else value

    columns = [column.to_pylist() for column in rows.columns]
    return ";".join("|".join(map(shown, row, truth)) for row in zip(*columns, strict=True))


def test_statements_mean_what_they_mean_to_the_server(connection: pagecast.Connection) -> None:
    lines = ANSWERS.read_text().split("# Of connections.")[0].splitlines()
    wrong = []
    for line in lines:
        if line and not line.startswith("#"):
            expression, *answers = line.split("\t")
            wanted = "ERR" if answers[-1].startswith("ERR") else answers[-1]
            found = answer(connection, expression)
            # A query around another keeps no order.
            if sorted(found.split(";")) != sorted(wanted.split(";")):
                wrong.append(f"{expression}: {found}, and not {wanted}")
    assert not wrong, "\n".join(wrong)
