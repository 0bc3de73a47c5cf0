"""Khalaji and others, 2025, on PostgreSQL with the extension."""

from figure import Chart, Claim, Figure, Given, above, below, between, equal

SOURCE = "2025, PostgreSQL"
COMMAND = "make bench-postgres-paper"
NO_QUEUE = "PQ is not built. The server tells an extension of its own scans' pages alone, so no queue could hold all."


def blocks(given: Given, figure: str, streams: int, policy: str, workload: str | None = None) -> float:
    """Blocks read, the median over the seeds."""
    for cell in given.json("postgres-paper")["cells"]:
        if (cell["figure"], cell["streams"], cell["policy"]) == (figure, streams, policy) and workload in (None, cell["workload"]):
            return cell["blocks"][0]
    return given.missing(f"{policy}, {streams} streams of figure {figure}")


def beside(figure: str, streams: int, one: str, other: str, workload: str | None = None):
    return lambda given: blocks(given, figure, streams, one, workload) / blocks(given, figure, streams, other, workload)


def samples(given: Given) -> Chart:
    counts = {1: "1 samples", 2: "2 samples", 5: "5 samples", 10: "sampling", 20: "20 samples"}
    return Chart("samples", "blocks read, thousands", {
        f"{streams} streams": [(count, blocks(given, "7", streams, policy) / 1000) for count, policy in counts.items()]
        for streams in (8, 32)})


FIGURES = [
    Figure(SOURCE, "5", "sequential scans by streams", COMMAND, [
        Claim("blocks of sampling beside clock, 8 streams", "fewer", beside("5", 8, "sampling", "clock"), below()),
        Claim("the same, 32 streams", "fewer", beside("5", 32, "sampling", "clock"), below()),
        Claim("not in the paper: ours beside sampling, 32 streams", "-", beside("5", 32, "ours", "sampling"), below()),
    ], why=NO_QUEUE),
    Figure(SOURCE, "7", "how many samples, and bulk", COMMAND, [
        Claim("blocks of 2 samples beside 1, 32 streams", "much fewer", beside("7", 32, "2 samples", "1 samples"), below(0.9)),
        Claim("of the gain from 1 to 20 samples, what 10 bring, 32 streams", "most", lambda given: (
            (blocks(given, "7", 32, "1 samples") - blocks(given, "7", 32, "sampling"))
            / (blocks(given, "7", 32, "1 samples") - blocks(given, "7", 32, "20 samples"))), between(0.75, 1)),
        Claim("10 of 100 beside 20 for each, 32 streams", "similar", beside("7", 32, "10 of 100 samples", "20 samples"), equal(0.05)),
    ], samples),
    Figure(SOURCE, "8", "trailing index scans", COMMAND, [
        Claim("blocks of sampling beside clock, 8 streams", "fewer", beside("8", 8, "sampling", "clock"), below()),
        Claim("the same, 32 streams", "0.85", beside("8", 32, "sampling", "clock"), below(0.85)),
        Claim("statistics beside none, 32 streams", "slightly fewer", beside("8", 32, "sampling, frequency", "sampling"), below()),
    ], why="At 32 streams steering stood aside in this run, by a rule that has since changed."),
    Figure(SOURCE, "9", "index scans almost in the table's order", COMMAND, [
        Claim("blocks of sampling beside clock, 32 streams", "more", beside("9", 32, "sampling", "clock"), above()),
        Claim("statistics beside clock, 32 streams", "almost level", beside("9", 32, "sampling, frequency", "clock"), equal(0.1)),
    ], why="What the extension cannot see, the use of pages by index scans, is what would help: `python3 -m bench.bound`."),
    Figure(SOURCE, "11", "even point reads with scans among them", COMMAND, [
        Claim("no scans: sampling beside clock", "level", beside("11", 8, "sampling", "clock", "ycsb 0"), equal(0.02)),
        Claim("1 scan in 500: ours beside clock", "fewer", beside("11", 8, "ours", "clock", "ycsb 0, 1 scan in 500"), below()),
        Claim("1 scan in 500: sampling beside clock", "fewer", beside("11", 8, "sampling", "clock", "ycsb 0, 1 scan in 500"), below()),
    ]),
    Figure(SOURCE, "6, 10, 12", "sizes of the cache, TPC-H, the scans' part of the reads", COMMAND,
           why="The command measures them; nobody has yet run it to its end."),
]
