"""Self-contained HTML reports with the style, the script and the charting library of the `pagecast`
command's reports."""

import html
import json
from pathlib import Path

_SIM = Path(__file__).resolve().parents[3] / "crates/pagecast-sim"


class Page:
    """A report in the making; `str` renders it. Charts are ECharts options, formatters as in the
    simulator's pages (`"=bytes"`)."""

    def __init__(self, title: str, lead: str):
        self._title, self._lead = html.escape(title), html.escape(lead)
        self._facts: list[str] = []
        self._sections: list[str] = []

    def fact(self, name: str, value: object) -> None:
        """Adds something that the reader must know about all figures."""
        self._facts.append(f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(str(value))}</dd></div>")

    def chart(self, title: str, note: str, height: int, option: dict) -> None:
        """Adds a chart."""
        number = len(self._sections)
        data = json.dumps(option).replace("<", "\\u003c")
        self._sections.append(
            f'<section>\n<h2>{html.escape(title)}</h2>\n<p>{html.escape(note)}</p>\n'
            f'<div class="chart" style="height:{height}px" data-option="option-{number}"></div>\n'
            f'<script type="application/json" id="option-{number}">{data}</script>\n</section>')

    def table(self, title: str, heads: list[str], text_columns: int, rows: list[list]) -> None:
        """Adds a table; the first `text_columns` are text, the others figures."""
        def line(cells: list, tag: str) -> str:
            kinds = [' class="text"' if number < text_columns else "" for number in range(len(cells))]
            return "<tr>" + "".join(f"<{tag}{kind}>{html.escape(str(cell))}</{tag}>" for kind, cell in zip(kinds, cells)) + "</tr>"

        body = "\n".join(line(row, "td") for row in rows)
        self._sections.append(f'<section>\n<h2>{html.escape(title)}</h2>\n<div class="wide"><table><thead>{line(heads, "th")}</thead>\n'
                              f"<tbody>{body}</tbody></table></div>\n</section>")

    def __str__(self) -> str:
        style = (_SIM / "src/report/page.css").read_text()
        script = (_SIM / "src/report/page.js").read_text()
        library = (_SIM / "assets/echarts/echarts.min.js").read_text()
        return "\n".join([
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{self._title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>",
            f'<h1>{self._title}</h1>\n<p class="lead">{self._lead}</p>\n<dl>', *self._facts, "</dl>", *self._sections,
            f"<footer>pagecast</footer>\n</main>\n<script>{library}</script>\n<script>\n{script}</script>\n</body>\n</html>\n"])
