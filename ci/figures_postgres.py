"""Khalaji and others, 2025, on PostgreSQL with the extension."""

import statistics

from figure import Chart, Claim, Figure, Given, above, below, between, equal

SOURCE = "2025, PostgreSQL"
COMMAND = "make bench-postgres-paper"
NO_QUEUE = "PQ is not built. The server tells an extension of its own scans' pages alone, so no queue could hold all."


# Of the scans' part of the reads: so many point reads for a scan.
FEW, MANY = "1 scan in 2000", "1 scan in 250"


def blocks(given: Given, figure: str, streams: int, policy: str, workload: str | None = None, pool: int = 30) -> dict[int, int]:
    """Blocks read, by seed."""
    found = {run["seed"]: run["blocks"] for run in given.json("postgres-paper")["runs"]
             if (run["figure"], run["streams"], run["policy"], run["pool"]) == (figure, streams, policy, pool)
             and workload in (None, run["workload"])}
    return found or given.missing(f"{policy}, {streams} streams of figure {figure}")


def beside(figure: str, streams: int, one: str, other: str, workload: str | None = None, pool: int = 30):
    def ratios(given: Given) -> list[float]:
        ours, theirs = (blocks(given, figure, streams, policy, workload, pool) for policy in (one, other))
        return [ours[seed] / theirs[seed] for seed in ours if seed in theirs] or given.missing(figure)

    return ratios


def gained(given: Given) -> list[float]:
    """Of the gain from 1 to 20 samples, what 10 bring."""
    one, ten, twenty = (blocks(given, "7", 32, policy) for policy in ("1 samples", "sampling", "20 samples"))
    return [(one[seed] - ten[seed]) / (one[seed] - twenty[seed]) for seed in one if seed in ten and seed in twenty]


def middle(values: dict[int, int]) -> float:
    return statistics.median(values.values()) / 1000


def samples(given: Given) -> Chart:
    counts = {1: "1 samples", 2: "2 samples", 5: "5 samples", 10: "sampling", 20: "20 samples", 100: "100 samples"}
    return Chart("samples", "blocks read, thousands", {
        f"{streams} streams": [(count, middle(blocks(given, "7", streams, policy))) for count, policy in counts.items()]
        for streams in (8, 32)})


def lines(figure: str, policies: tuple[str, ...], all_streams: tuple[int, ...]):
    def chart(given: Given) -> Chart:
        return Chart("streams", "blocks read, thousands", {
            policy: [(streams, middle(blocks(given, figure, streams, policy))) for streams in all_streams] for policy in policies})

    return chart


def pools(given: Given) -> Chart:
    return Chart("pool, % of the table", "blocks read, thousands", {
        policy: [(pool, middle(blocks(given, "6", 32, policy, pool=pool))) for pool in (20, 30, 45, 60, 75)]
        for policy in ("clock", "sampling", "ours")})


FIGURES = [
    Figure(SOURCE, "5", "sequential scans by streams", COMMAND, [
        Claim("blocks of sampling beside clock, 8 streams", "fewer", beside("5", 8, "sampling", "clock"), below()),
        Claim("the same, 32 streams", "fewer", beside("5", 32, "sampling", "clock"), below()),
        Claim("not in the paper: ours beside sampling, 32 streams", "-", beside("5", 32, "ours", "sampling"), below()),
    ], lines("5", ("clock", "sampling", "ours"), (1, 2, 4, 8, 16, 32, 64)), NO_QUEUE),
    Figure(SOURCE, "6", "scans by size of the cache", COMMAND, [
        Claim("blocks of sampling beside clock, 32 streams, the smallest cache", "0.60 to 0.70", beside("6", 32, "sampling", "clock", pool=20), below(0.65)),
        Claim("the same, the largest", "closer to 1", beside("6", 32, "sampling", "clock", pool=75), below()),
    ], pools),
    Figure(SOURCE, "7", "how many samples, and bulk", COMMAND, [
        Claim("blocks of 2 samples beside 1, 32 streams", "much fewer", beside("7", 32, "2 samples", "1 samples"), below(0.9)),
        Claim("of the gain from 1 to 20 samples, what 10 bring, 32 streams", "most", gained, between(0.75, 1.25)),
        Claim("10 of 100 beside 20 for each, 32 streams", "similar", beside("7", 32, "10 of 100 samples", "20 samples"), equal(0.05)),
    ], samples),
    Figure(SOURCE, "8", "trailing index scans", COMMAND, [
        Claim("blocks of sampling beside clock, 8 streams", "fewer", beside("8", 8, "sampling", "clock"), below()),
        Claim("the same, 32 streams", "0.85", beside("8", 32, "sampling", "clock"), below(0.85)),
        Claim("statistics beside none, 32 streams", "slightly fewer", beside("8", 32, "sampling, frequency", "sampling"), below()),
    ], why="With 32 and 64 streams all variants read 0 to 6 % more than clock: the kernel has the table, so no scan waits, "
           "and each reads much in one turn. On a device ours reads 0.62 of stock's bytes with 32: "
           "[results](results.md#postgresql)."),
    Figure(SOURCE, "9", "index scans almost in the table's order", COMMAND, [
        Claim("blocks of sampling beside clock, 32 streams", "more", beside("9", 32, "sampling", "clock"), above()),
        Claim("statistics beside clock, 32 streams", "almost level", beside("9", 32, "sampling, frequency", "clock"), equal(0.1)),
    ], why="What the extension cannot see, the use of pages by index scans, is what would help: `python3 -m bench.bound`."),
    Figure(SOURCE, "10", "TPC-H", COMMAND, [
        Claim("blocks of statistics beside clock, 16 streams", "0.89 at 64", beside("10", 16, "sampling, frequency", "clock"), below(0.89)),
        Claim("blocks of statistics beside none, 16 streams", "0.94 at 64", beside("10", 16, "sampling, frequency", "sampling"), below(0.94)),
        *(Claim(f"not in the paper: ours beside clock, {streams} streams", "-", beside("10", streams, "ours", "clock"), below())
          for streams in (4, 8, 16)),
    ], why="With 8 streams at scale 0.3 sampling saves 31 of 1,099 thousand blocks of sequential scans, and lookups by one "
           "index read 70 more: `python3 -m bench.account`. Ours reads sequential scans together."),
    Figure(SOURCE, "11", "even point reads with scans among them", COMMAND, [
        Claim("no scans: sampling beside clock", "level", beside("11", 8, "sampling", "clock", "ycsb 0"), equal(0.02)),
        Claim("1 scan in 500: ours beside clock", "fewer", beside("11", 8, "ours", "clock", "ycsb 0, 1 scan in 500"), below()),
        Claim("1 scan in 500: sampling beside clock", "fewer", beside("11", 8, "sampling", "clock", "ycsb 0, 1 scan in 500"), below()),
    ]),
    Figure(SOURCE, "12", "the scans' part of the reads", COMMAND, [
        Claim("few scans, skew 0.99: statistics beside sampling", "fewer",
              beside("12", 8, "sampling, frequency", "sampling", f"ycsb 0.99, {FEW}"), below()),
        Claim("many scans, skew 0.75: sampling beside clock", "fewer", beside("12", 8, "sampling", "clock", f"ycsb 0.75, {MANY}"), below()),
    ]),
]
