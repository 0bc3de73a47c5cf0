"""Khalaji, Vanderkooy, Guo, Daudjee, PVLDB 18(13), 2025, in the simulator."""

from figure import Chart, Claim, Figure, Given, above, below, between, equal

SOURCE = "2025"
CLOCK, PQ, SAMPLING, OURS = "clock", "pbm-pq", "pbm-paper", "pbm"
STATISTICS = "pbm-published(frequency=max,fallback=lru)"
BULK = "pbm-published(samples=100,bulk=10)"
NAMES = {CLOCK: "clock", PQ: "PQ", SAMPLING: "sampling", STATISTICS: "sampling, statistics", OURS: "pbm"}
STREAMS = (8, 16, 32, 64)


def command(number: str) -> str:
    return f"make reproduction FIGURES={number}"


def ratio(name: str, one: str, other: str, size: int = 0):
    return lambda given: given.misses(name, one, size) / given.misses(name, other, size)


def by_streams(files: str, policies: tuple[str, ...]):
    def chart(given: Given) -> Chart:
        lines = {NAMES[policy]: [(streams, 100 * (1 - given.misses(files.format(streams), policy)))
                                 for streams in STREAMS] for policy in policies}
        return Chart("streams", "hit rate, %", lines)

    return chart


def cache_sizes(given: Given) -> Chart:
    sizes = (20, 30, 45, 60, 80)
    lines = {NAMES[policy]: [(size, 100 * (1 - given.misses("6", policy, place))) for place, size in enumerate(sizes)]
             for policy in (CLOCK, PQ, SAMPLING, OURS)}
    return Chart("pool, % of the table", "hit rate, %", lines)


def samples(given: Given) -> Chart:
    counts = (1, 2, 5, 10, 20, 100)
    lines = {f"{streams} streams": [(count, 100 * (1 - given.misses(f"7-{streams}", f"pbm-paper(samples={count})")))
                                    for count in counts] for streams in (8, 32)}
    return Chart("samples", "hit rate, %", lines)


def point_reads(name: str, title: str, scans: tuple[int, ...], skew: str):
    def chart(given: Given) -> Chart:
        lines = {NAMES[policy]: [(count, 100 * (1 - given.misses(f"{name}-{skew}-{count}", policy))) for count in scans]
                 for policy in (CLOCK, PQ, SAMPLING, STATISTICS, OURS)}
        return Chart(title, "hit rate, %", lines)

    return chart


def worst_of_others(given: Given) -> float:
    """Misses of sampling with statistics beside the best policy that knows no scan: dynZipfRO-CS,
    the worst of four sizes."""
    name = "3-dynzipf-like-cs"
    others = ("clock", "lru", "lru-k", "2q", "arc", "hyperbolic", "leanevict", "watt")
    return max(given.misses(name, STATISTICS, size) / min(given.misses(name, other, size) for other in others)
               for size in range(4))


FIGURES = [
    Figure(SOURCE, "2", "odds of an optimal eviction", "cargo run --release -p pagecast-sim --example sampling_odds",
           why="A formula; a test holds the policy to it within four standard deviations."),
    Figure(SOURCE, "3", "hit rates beside other policies", command("3"), [
        Claim("sampling with statistics misses less than every policy without scans, dynZipfRO-CS", "most cells",
              worst_of_others, below()),
        Claim("the same beside WATT where scans run one at a time, dynZipfRO at 30 %", "level",
              ratio("3-dynzipf-like", STATISTICS, "watt", 1), equal(0.05)),
    ], why="The traces are imitations by their published moments; Redset's are not public."),
    Figure(SOURCE, "5", "sequential scans by streams", command("5"), [
        Claim("misses of sampling beside clock, 32 streams", "fewer", ratio("5-32", SAMPLING, CLOCK), below()),
        Claim("misses of sampling beside PQ, 32 streams", "0.65", ratio("5-32", SAMPLING, PQ), below(0.65)),
        Claim("misses of sampling beside PQ, 64 streams", "0.73", ratio("5-64", SAMPLING, PQ), below(0.73)),
    ], by_streams("5-{}", (CLOCK, PQ, SAMPLING, OURS)),
           "The authors' code has a scan's way to a block group in pages, and multiplies it by the group's 128 pages again. "
           "With that, and only with that, PQ falls to clock and sampling stays ahead, as in the paper: "
           "`cargo run --release -p pagecast-sim --example pbm_as_built -- 32`."),
    Figure(SOURCE, "6", "sequential scans by size of the pool", command("6"), [
        Claim("misses of sampling beside clock, the smallest pool", "0.60 to 0.70", ratio("6", SAMPLING, CLOCK, 0),
              below(0.65)),
        Claim("points of hit rate gained over clock, the largest pool beside the smallest", "below 1", lambda given: (
            (given.misses("6", CLOCK, 4) - given.misses("6", SAMPLING, 4))
            / (given.misses("6", CLOCK, 0) - given.misses("6", SAMPLING, 0))), below()),
    ], cache_sizes),
    Figure(SOURCE, "7a-c", "how many samples", command("7"), [
        Claim("misses of 2 samples beside 1, 32 streams", "much fewer",
              ratio("7-32", "pbm-paper(samples=2)", "pbm-paper(samples=1)"), below(0.9)),
        Claim("of the gain from 1 to 100 samples, what 10 bring", "most", lambda given: (
            (given.misses("7-32", "pbm-paper(samples=1)") - given.misses("7-32", "pbm-paper(samples=10)"))
            / (given.misses("7-32", "pbm-paper(samples=1)") - given.misses("7-32", "pbm-paper(samples=100)"))),
              between(0.75, 1)),
    ], samples),
    Figure(SOURCE, "7d", "eviction in bulk", command("7"), [
        Claim("misses of 10 of 100 samples beside 100 for each, 32 streams", "similar",
              ratio("7-32", BULK, "pbm-paper(samples=100)"), equal(0.05)),
        Claim("the same beside 10 for each", "fewer", ratio("7-32", BULK, "pbm-paper(samples=10)"), below()),
    ]),
    Figure(SOURCE, "8", "trailing index scans", command("8"), [
        Claim("misses of sampling beside clock, 32 streams", "0.85", ratio("8-32", SAMPLING, CLOCK), below(0.85)),
        Claim("misses of sampling beside PQ, 32 streams", "0.84", ratio("8-32", SAMPLING, PQ), below(0.84)),
        Claim("statistics reduce them further", "slightly", ratio("8-32", STATISTICS, SAMPLING), below()),
    ], by_streams("8-{}", (CLOCK, PQ, SAMPLING, STATISTICS, OURS)),
           "PQ: as figure 5. Statistics keep pages that scans have left behind; in each reading of Algorithm 2 they cost "
           "where all reads are scans': `make reproduction FIGURES=algorithm2`."),
    Figure(SOURCE, "9", "index scans almost in the table's order", command("9"), [
        Claim("misses of sampling beside clock, 32 streams", "more", ratio("9-32", SAMPLING, CLOCK), above()),
        Claim("statistics beside clock, 32 streams", "almost level", ratio("9-32", STATISTICS, CLOCK), equal(0.1)),
        Claim("statistics beside PQ, 64 streams", "0.44", ratio("9-64", STATISTICS, PQ), below(0.44)),
    ], by_streams("9-{}", (CLOCK, PQ, SAMPLING, STATISTICS, OURS)),
           "PQ: as figure 5, so less is left to gain beside it."),
    Figure(SOURCE, "11", "point reads with scans among them", command("11"), [
        Claim("even points, no scans: the best beside the worst of clock, sampling, statistics", "level",
              lambda given: min(given.misses("11-0-0", policy) for policy in (CLOCK, SAMPLING, STATISTICS))
              / max(given.misses("11-0-0", policy) for policy in (CLOCK, SAMPLING, STATISTICS)), equal(0.02)),
        Claim("statistics beside clock, skew 0.99, no scans", "fewer", ratio("11-0.99-0", STATISTICS, CLOCK), below()),
        Claim("clock beside sampling, skew 0.99, no scans", "fewer", ratio("11-0.99-0", CLOCK, SAMPLING), below()),
        Claim("sampling beside clock, even points, 8 scans a million", "0.875", ratio("11-0-5700", SAMPLING, CLOCK),
              below(0.875)),
        Claim("sampling beside clock, skew 0.75, 8 scans a million", "0.85", ratio("11-0.75-5700", SAMPLING, CLOCK),
              below(0.85)),
    ], point_reads("11", "scans (0, 2, 8 a million of the paper)", (0, 1425, 5700), "0.75")),
    Figure(SOURCE, "12", "the scans' part of the reads", command("12"), [
        Claim("statistics beside sampling where scans make 20 %, skew 0.99", "fewer",
              ratio("12-0.99-625", STATISTICS, SAMPLING), below()),
        Claim("sampling beside statistics where scans make 80 %, skew 0.75", "fewer",
              ratio("12-0.75-10000", SAMPLING, STATISTICS), below()),
    ], point_reads("12", "scans (20, 50, 67, 80 % of reads)", (625, 2500, 5000, 10000), "0.75")),
]
