"""Switakowski, thesis of 2011, in the simulator's closed loop."""

from figure import Chart, Claim, Figure, Given, above, below, between, equal

SOURCE = "2011"
THESIS = "unordered(outstanding=1)"
WAYS = {"LRU": ("lru", "ordered"), "PBM": ("pbm", "ordered"), "cooperative": ("pbm", THESIS)}


def command(number: str) -> str:
    return f"make reproduction FIGURES=2011-{number}"


def beside(name: str, figure: str, one: str, other: str, size: int = 0, workload: int = 0):
    return lambda given: (given.closed(name, figure, *WAYS[one], size, workload)
                          / given.closed(name, figure, *WAYS[other], size, workload))


def by_pool(name: str, figure: str, y: str, unit: float):
    def chart(given: Given) -> Chart:
        return Chart("pool, % of what is read", y, {
            way: [(20 * (place + 1), given.closed(name, figure, *WAYS[way], place) / unit) for place in range(5)]
            for way in WAYS})

    return chart


def by_streams(given: Given) -> Chart:
    return Chart("streams, each of 50 %", "GB read", {
        way: [(streams, given.closed("2011-6.4", "bytes_read", *WAYS[way], 0, 6 + place) / 1e9)
              for place, streams in enumerate((1, 2, 4, 8, 16, 32))] for way in WAYS})


THROUGHPUT = (2, 4, 8, 16)
ROWS = {"stock": ("stock", "clock"), "in order": ("in-order", "pbm"), "out of order": ("out-of-order", "pbm")}


def run(given: Given, streams: int, row: str) -> dict:
    """The run of a row of TPC-H's throughput run."""
    delivery, policy = ROWS[row]
    return next(run for run in given.json(f"throughput-{streams}")["runs"]
                if run["delivery"] == delivery and run["policy"] == policy)


def throughput(one: str, other: str, figure: str, streams: int):
    return lambda given: run(given, streams, one)[figure] / run(given, streams, other)[figure]


def gigabytes(given: Given) -> Chart:
    return Chart("streams of 22 queries", "GB read", {
        row: [(streams, run(given, streams, row)["bytes_read"] / 1e9) for streams in THROUGHPUT] for row in ROWS})


FIGURES = [
    Figure(SOURCE, "Table 6.1", "fast and slow queries, pool 40 %", command("6.1"), [
        Claim("GB read, PBM beside LRU", "0.57", beside("2011-6.1", "bytes_read", "PBM", "LRU"), below(0.57)),
        Claim("GB read, cooperative beside LRU", "0.28", beside("2011-6.1", "bytes_read", "cooperative", "LRU"), below(0.28)),
        Claim("time of a stream, PBM beside LRU", "0.66", beside("2011-6.1", "stream_s", "PBM", "LRU"), below(0.66)),
        Claim("time of a stream, cooperative beside LRU", "0.30", beside("2011-6.1", "stream_s", "cooperative", "LRU"), below(0.30)),
        Claim("latency, cooperative beside LRU", "0.36", beside("2011-6.1", "normalized_latency", "cooperative", "LRU"), below(0.36)),
    ]),
    Figure(SOURCE, "6.1", "what scans could share", command("6.1"),
           why="Its report is the page that the command writes beside its JSON; the area has no number to compare."),
    Figure(SOURCE, "6.2", "size of the pool", command("6.2"), [
        Claim("GB read in order, PBM beside LRU, pool 20 %", "fewer", beside("2011-6.2", "bytes_read", "PBM", "LRU"), below()),
        Claim("what a pool of 20 % costs beside one of all: GB more, cooperative beside LRU", "slight", lambda given: (
            (given.closed("2011-6.2", "bytes_read", *WAYS["cooperative"], 0) - given.closed("2011-6.2", "bytes_read", *WAYS["cooperative"], 4))
            / (given.closed("2011-6.2", "bytes_read", *WAYS["LRU"], 0) - given.closed("2011-6.2", "bytes_read", *WAYS["LRU"], 4))),
              between(0, 0.25)),
    ], by_pool("2011-6.2", "bytes_read", "GB read", 1e9)),
    Figure(SOURCE, "6.3", "mixes of speeds and ranges", command("6.3"), [
        Claim("time of a stream, cooperative beside LRU, the worst of nine mixes", "below 1",
              lambda given: max(beside("2011-6.3", "stream_s", "cooperative", "LRU", 0, mix)(given) for mix in range(9)), below()),
        Claim("PBM beside LRU, the worst of nine mixes", "at most 1",
              lambda given: max(beside("2011-6.3", "stream_s", "PBM", "LRU", 0, mix)(given) for mix in range(9)), between(0, 1.01)),
    ]),
    Figure(SOURCE, "6.4", "streams", command("6.4"), [
        Claim("GB read by 32 cooperative streams of 50 % beside 8", "about 1",
              lambda given: given.closed("2011-6.4", "bytes_read", *WAYS["cooperative"], 0, 11)
              / given.closed("2011-6.4", "bytes_read", *WAYS["cooperative"], 0, 9), equal(0.15)),
        Claim("16 streams of 10 %: PBM beside cooperative", "close", beside("2011-6.4", "bytes_read", "PBM", "cooperative", 0, 4), equal(0.3)),
    ], by_streams),
    Figure(SOURCE, "Table 6.2, 6.5", "sets of columns", command("columns"), [
        Claim(f"GB read, {one} beside LRU, columns {sets}", paper, beside("2011-columns", "bytes_read", one, "LRU", 0, place), below(float(paper)))
        for place, sets, pbm, coop in ((0, "ABC", "0.70", "0.61"), (1, "ABC, DEF", "0.61", "0.42"),
                                       (4, "ABC, BCD, CDE, DEF", "0.65", "0.54"))
        for one, paper in (("PBM", pbm), ("cooperative", coop))]),
    Figure(SOURCE, "6.7 a-c", "cooperative merge joins alone", command("6.7"), [
        Claim("GB read, cooperative beside LRU, pool 40 %", "fewer", beside("2011-6.7-abc", "bytes_read", "cooperative", "LRU", 1), below()),
        Claim("GB read, cooperative beside PBM in order, pool 40 %", "fewer", beside("2011-6.7-abc", "bytes_read", "cooperative", "PBM", 1), below()),
    ], by_pool("2011-6.7-abc", "bytes_read", "GB read", 1e9)),
    Figure(SOURCE, "6.7 d-f", "the same beside scans", command("6.7"), [
        Claim("GB read, cooperative beside PBM in order, pool 40 %", "fewer", beside("2011-6.7-def", "bytes_read", "cooperative", "PBM", 1), below()),
        Claim("latency, cooperative beside LRU, the largest pool", "above 1",
              beside("2011-6.7-def", "normalized_latency", "cooperative", "LRU", 4), above()),
    ], by_pool("2011-6.7-def", "bytes_read", "GB read", 1e9),
           "Their shortest query has a latency of 60 to 100 beside cooperative scans, as it waits for all chunks that are "
           "scheduled. Ours has 3, and 8 with LRU: it waits for one."),
    Figure(SOURCE, "7.3 a", "TPC-H's throughput run", command("7.3"), [
        Claim("ten streams over ten tables, GB read, cooperative beside PBM, pool 40 %", "about 1",
              beside("2011-7.3", "bytes_read", "cooperative", "PBM", 2), equal(0.1)),
    ]),
    Figure(SOURCE, "7.3", "the run itself, on DataFusion, pool 30 %", "make bench-throughput", [
        Claim("GB read, PBM in order beside stock, 8 streams", "fewer", throughput("in order", "stock", "bytes_read", 8), below()),
        Claim("GB read, cooperative beside PBM in order, 8 streams", "about 1",
              throughput("out of order", "in order", "bytes_read", 8), equal(0.1)),
        Claim("GB read, cooperative beside stock, 16 streams", "fewer", throughput("out of order", "stock", "bytes_read", 16), below()),
        Claim("time, cooperative beside stock, 8 streams", "about 1, CPU-bound", throughput("out of order", "stock", "wall_s", 8), equal(0.1)),
    ], gigabytes),
]
