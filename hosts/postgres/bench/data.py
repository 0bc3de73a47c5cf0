"""The benchmark's data: TPC-H, clustered as a warehouse receives it, and a YCSB table; loaded once
and kept.

`lineitem` lies in the order of `greatest(l_receiptdate, l_commitdate)` and `orders` in that of
`o_orderdate` (PVLDB 18(13), section 6.2 and 6.5), so a range of dates falls on neighbouring blocks
with ragged ends. The YCSB table has 100-byte fields filled from the row's number; they are
repeatable and their length, not their content, is what a buffer manager sees.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cluster import Cluster, Installation, ServerFailed
from cluster.installation import BUILT

# Raised when the same scale gives other tables.
_VERSION = 2

_TABLES = {
    "region": "r_regionkey int, r_name char(25), r_comment varchar(152)",
    "nation": "n_nationkey int, n_name char(25), n_regionkey int, n_comment varchar(152)",
    "part": "p_partkey int, p_name varchar(55), p_mfgr char(25), p_brand char(10), p_type varchar(25), p_size int, p_container char(10), "
            "p_retailprice numeric(15,2), p_comment varchar(23)",
    "supplier": "s_suppkey int, s_name char(25), s_address varchar(40), s_nationkey int, s_phone char(15), s_acctbal numeric(15,2), "
                "s_comment varchar(101)",
    "partsupp": "ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost numeric(15,2), ps_comment varchar(199)",
    "customer": "c_custkey int, c_name varchar(25), c_address varchar(40), c_nationkey int, c_phone char(15), c_acctbal numeric(15,2), "
                "c_mktsegment char(10), c_comment varchar(117)",
    "orders": "o_orderkey bigint, o_custkey int, o_orderstatus char(1), o_totalprice numeric(15,2), o_orderdate date, "
              "o_orderpriority char(15), o_clerk char(15), o_shippriority int, o_comment varchar(79)",
    "lineitem": "l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, l_quantity numeric(15,2), "
                "l_extendedprice numeric(15,2), l_discount numeric(15,2), l_tax numeric(15,2), l_returnflag char(1), l_linestatus char(1), "
                "l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct char(25), l_shipmode char(10), l_comment varchar(44)",
}
_CLUSTERED = {"lineitem": "greatest(l_receiptdate, l_commitdate)", "orders": "o_orderdate"}

# Indexes that stay; the workloads add and drop those on lineitem's dates and suppliers.
_INDEXES = [
    "create index lineitem_orderkey on lineitem (l_orderkey)",
    "create unique index orders_key on orders (o_orderkey)",
    "create index orders_date on orders using brin (o_orderdate) with (pages_per_range = 16)",
    "create unique index customer_key on customer (c_custkey)",
    "create unique index part_key on part (p_partkey)",
    "create unique index supplier_key on supplier (s_suppkey)",
    "create unique index partsupp_key on partsupp (ps_partkey, ps_suppkey)",
    "create unique index usertable_key on usertable (ycsb_key)",
    "create index usertable_seqscan on usertable using brin (seqscan_key) with (pages_per_range = 16)",
]

# While loading nothing has to survive a crash: an unfinished folder is thrown away.
_LOADING = {
    "fsync": "off", "wal_level": "minimal", "max_wal_senders": 0, "autovacuum": "off", "shared_buffers": "256MB",
    "maintenance_work_mem": "512MB", "work_mem": "512MB", "max_wal_size": "8GB", "full_page_writes": "off",
}


def ycsb_rows(scale: float) -> int:
    """Rows of the YCSB table: at scale 1 as many bytes as lineitem."""
    return int(780_000 * scale)


def place_of(installation: Installation, scale: float) -> Path:
    """The folder of the cluster that holds the data at this scale, or would."""
    return BUILT / f"bench-{installation.major}-sf{scale:g}-v{_VERSION}"


def folder(installation: Installation, scale: float) -> Path:
    """The folder of the cluster that holds the data at this scale, loaded now if it is not
    there."""
    place = place_of(installation, scale)
    if (place / "loaded").is_file():
        return place
    generator = _generator()
    print(f"loading TPC-H and YCSB at scale {scale:g} into {place}", file=sys.stderr)
    shutil.rmtree(place, ignore_errors=True)
    with Cluster(installation, _LOADING, folder=place) as cluster:
        cluster.create().start()
        for table, columns in _TABLES.items():
            _load(cluster, generator, table, columns, scale)
        with cluster.connect() as session:
            _ycsb(session, ycsb_rows(scale))
            for index in _INDEXES:
                session.execute(index)
            session.execute("vacuum (freeze, analyze)")
    (place / "loaded").touch()
    return place


def _load(cluster: Cluster, generator: Path, table: str, columns: str, scale: float) -> None:
    order = _CLUSTERED.get(table)
    target = f"unordered_{table}" if order else table
    with cluster.connect() as session:
        session.execute(f"create {'unlogged' if order else ''} table {target} ({columns})")
        rows = subprocess.Popen([generator, table, str(scale)], stdout=subprocess.PIPE)
        cluster.run("psql", "-X", "-q", "-c", f"\\copy {target} from stdin with (format csv)", stdin=rows.stdout)
        if rows.wait() != 0:
            raise ServerFailed(f"{generator} {table} {scale} ended with status {rows.returncode}")
        if order:
            session.execute(f"create table {table} as select * from {target} order by {order}")
            session.execute(f"drop table {target}")


def _ycsb(session, rows: int) -> None:
    fields = [f"field{number}" for number in range(10)]
    session.execute(f"create table usertable (ycsb_key int, seqscan_key int, {', '.join(f'{name} varchar(100)' for name in fields)})")
    values = ", ".join(f"rpad(md5((i * 10 + {number})::text), 100, 'x')" for number in range(10))
    # Keys are scattered over the table, so neighbours in popularity are none on disk.
    session.execute(f"insert into usertable select (i * 7919::bigint) % {rows}, i, {values} from generate_series(0, {rows - 1}) i")


def _generator() -> Path:
    source = Path(__file__).parent / "tpch"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    target = Path(os.environ.get("CARGO_TARGET_DIR", cache / "pagecast/target"))
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", source / "Cargo.toml", "--target-dir", target]
    subprocess.run(command, check=True)
    return target / "release/pagecast-tpch"
