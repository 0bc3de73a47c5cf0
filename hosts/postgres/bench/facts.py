"""The cooperative benchmark's table and what its streams ask: three queries of different speed, by
sequential scans of all of the table."""

import random
import shutil
import sys
from pathlib import Path

from bench.query import Query
from bench.workloads import Workload
from cluster import Cluster, Installation

# Rows of `facts` in a page, by their length.
_ROWS_OF_PAGE = 61
_PAGE = 8192
# Small enough to go through no ring of buffers, in a pool of 20 MiB or more.
_FILLER = 4 << 20

_LOADING = {"fsync": "off", "wal_level": "minimal", "max_wal_senders": 0, "autovacuum": "off", "shared_buffers": "256MB", "max_wal_size": "256MB",
            "full_page_writes": "off", "wal_init_zero": "off", "wal_recycle": "off"}


def load(installation: Installation, folder: Path, table: int, pool: int) -> None:
    """Makes a cluster with a table of about so many bytes, and with others that fill a pool, unless
    it is there."""
    if (folder / "loaded").is_file():
        return
    print(f"loading {table >> 20} MiB into {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    with Cluster(installation, _LOADING, folder=folder) as cluster:
        cluster.create("--wal-segsize=1").start()
        with cluster.connect() as session:
            make_table(session, "facts", table)
            for number in range(_fillers(pool)):
                make_table(session, f"filler{number}", _FILLER)
            # Nothing is left to be written by who reads the rows first.
            session.execute("vacuum (freeze, analyze)")
            session.execute("checkpoint")
    (folder / "loaded").touch()


def make_table(session, name: str, size: int) -> None:
    """A table of about so many bytes, whose answers do not depend on the order of rows."""
    session.execute(f"create table {name} (id int, code int, grp int, amount numeric(12,2), filler text); "
                    f"insert into {name} "
                    f"select i, (i * 7919::bigint) % 1000, i % 97, (i * 104729::bigint) % 1000000 / 100.0, rpad(md5(i::text), 80, 'x') "
                    f"from generate_series(1, {size // _PAGE * _ROWS_OF_PAGE}) i")


def _fillers(pool: int) -> int:
    return pool * 11 // 10 // _FILLER + 1


def _three(conditions) -> list[Query]:
    return [
        Query("fast", f"select count(*) from facts{conditions()}"),
        Query("middling", f"select count(*), sum(amount) from facts{conditions('id % 10 < 7')}"),
        Query("slow", "select grp, count(*), sum(amount * (1 + code * 0.001)), sum(amount * amount), avg(amount) "
                      f"from facts{conditions()} group by grp order by grp"),
    ]


def _drawn(rng: random.Random, length: int, conditions) -> list[Query]:
    """The three in a drawn order, and again until there are enough."""
    found: list[Query] = []
    while len(found) < length:
        three = _three(conditions)
        found += rng.sample(three, len(three))
    return found[:length]


def _whole(rng: random.Random, _scale: float, length: int) -> list[Query]:
    return _drawn(rng, length, lambda filtered="": f" where {filtered}" if filtered else "")


def _filtered(rng: random.Random, _scale: float, length: int) -> list[Query]:
    def conditions(filtered: str = "") -> str:
        width = rng.randrange(100, 900)
        first = rng.randrange(1000 - width)
        return " where " + " and ".join(filter(None, (f"code between {first} and {first + width}", filtered)))

    return _drawn(rng, length, conditions)


def workload(kind: str, pool: int, stagger: float) -> Workload:
    """The streams' queries: over all rows, or with random conditions on rows of 10 to 90 %."""
    first = ["set max_parallel_workers_per_gather = 0", *(f"select count(*) from filler{number}" for number in range(_fillers(pool)))]
    return Workload("cooperative", f"three speeds of queries over all blocks of a table, {kind}", KINDS[kind], length=3, first=first, stagger=stagger)


KINDS = {"whole": _whole, "filtered": _filtered}
