"""A chart of lines as SVG: axes, ticks, and a name at the end of each line."""

from html import escape

from figure import Chart

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 128, 14, 40
# Told apart in grey and by who sees few colours, too; legible on light and dark pages.
COLOURS = ("#3b78c3", "#c2571a", "#3a8f3a", "#a0489b", "#7d7d7d")
# What has a colour of its own in all charts.
OWN = {"clock": 4, "PQ": 1, "sampling": 2, "pbm": 0, "LRU": 4, "PBM": 1, "cooperative": 0}
MARKS = ("", "6 3", "2 3", "8 3 2 3", "1 2")


def ticks(most: float) -> list[float]:
    """Four to seven steps from 0."""
    step = next(s * 10 ** power for power in range(-3, 13) for s in (1, 2, 5) if most / (s * 10 ** power) <= 6)
    return [step * number for number in range(int(most / step + 0.999) + 1)]


def number(value: float) -> str:
    return f"{value:g}"


def spread(ends: list[float], lowest: float) -> list[float]:
    """Places for names, at least 14 apart and none below `lowest`, in the order given."""
    order = sorted(range(len(ends)), key=lambda place: ends[place])
    placed = list(ends)
    for before, after in zip(order, order[1:]):
        placed[after] = max(placed[after], placed[before] + 14)
    for after, before in zip([None, *order[::-1]], order[::-1]):
        most = lowest if after is None else placed[after] - 14
        placed[before] = min(placed[before], most)
    return placed


def draw(chart: Chart, title: str) -> str:
    """The picture. What is on the x axis stands at even distances, as values often double."""
    xs = sorted({x for line in chart.lines.values() for x, _ in line})
    levels = ticks(max(y for line in chart.lines.values() for _, y in line))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def at_x(x: float) -> float:
        return LEFT + (right - LEFT) * (xs.index(x) / max(1, len(xs) - 1))

    def at_y(y: float) -> float:
        return bottom - (bottom - TOP) * y / levels[-1]

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           f'font-family="sans-serif" font-size="12" fill="#7d7d7d"><title>{escape(title)}</title>']
    for y in levels:
        out.append(f'<line x1="{LEFT}" x2="{right}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#7d7d7d" stroke-opacity=".25"/>'
                   f'<text x="{LEFT - 6}" y="{at_y(y) + 4:.1f}" text-anchor="end">{number(y)}</text>')
    out += [f'<text x="{at_x(x):.1f}" y="{bottom + 16}" text-anchor="middle">{number(x)}</text>' for x in xs]
    out.append(f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(chart.x)}</text>')
    out.append(f'<text transform="translate(13 {(TOP + bottom) / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(chart.y)}</text>')
    ends = spread([at_y(line[-1][1]) for line in chart.lines.values()], bottom)
    for place, (name, line) in enumerate(chart.lines.items()):
        style = OWN.get(name, place) % len(COLOURS)
        colour, dashes = COLOURS[style], MARKS[style]
        points = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>')
        out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in line]
        out.append(f'<text x="{right + 8}" y="{ends[place] + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])
