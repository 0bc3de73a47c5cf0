"""ClickBench's 43 queries, and what of their rows is compared.

They are as published, but for what depends on the size of the table: `HAVING count(*) > 100000`
asks for a thousandth of the rows, and no OFFSET is beyond a 2,000th of them. So each gives rows.

Where rows are equal in what they are ordered by, LIMIT and OFFSET may take any of them, and engines
take different ones. A column more in ORDER BY would make it another query. So rows are compared
whole if the limit does not cut through their equals, and others by what they are ordered by. Where
the order is by a column that is not shown, or there is none, their number is compared.
"""

import hashlib
from decimal import Decimal
from typing import NamedTuple

from peers.hits import PAGE, REFERER, SAMPLE, SITE, VISITOR


class Query(NamedTuple):
    """A query without its LIMIT. `by` are the columns of its rows that they are ordered by, if
    others could stand there; empty if these are not shown."""
    text: str
    limit: int = 0
    offset: int = 0
    by: tuple[int, ...] | None = None

    def sql(self) -> str:
        limit = f" LIMIT {self.limit}" if self.limit else ""
        return self.text + limit + (f" OFFSET {self.offset}" if self.offset else "")

    def digest(self, rows: list[tuple]) -> str:
        """The same for the same answer, whatever rows its limit took and in what types numbers
        are."""
        told = [tuple(map(_told, row)) for row in rows]
        if self.by is not None and self.limit:
            key = lambda row: tuple(row[column] for column in self.by)
            cut = {key(row) for row in told[:1] if self.offset} | {key(row) for row in told[-1:] if len(told) == self.limit}
            told = [key(row) if not self.by or key(row) in cut else row for row in told]
        return hashlib.md5("\n".join(sorted(map("|".join, told))).encode()).hexdigest()


def _told(value: object) -> str:
    """Whole numbers exactly, others to nine digits: means are sums of floats or not."""
    if isinstance(value, float) or isinstance(value, Decimal) and value % 1:
        return f"{float(value):.9g}"
    return f"{value:.0f}" if isinstance(value, Decimal) else str(value)


def queries(rows: int) -> list[Query]:
    """The queries over a table of so many rows, the first one as number 0."""
    many = max(100_000 * rows // SAMPLE, 1)
    skipped = lambda offset: min(offset, rows // 2000)
    july = f"counterid = {SITE} AND eventdate >= DATE '2013-07-01' AND eventdate <= DATE '2013-07-31' AND isrefresh = 0"
    searches, widths = "FROM hits WHERE searchphrase <> ''", ", ".join(f"sum(resolutionwidth + {more})" for more in range(1, 90))
    host = r"regexp_replace(referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1')"
    clients = "count(*) AS c, sum(isrefresh), avg(resolutionwidth)"
    source = "CASE WHEN searchengineid = 0 AND advengineid = 0 THEN referer ELSE '' END"
    return [
        Query("SELECT count(*) FROM hits"),
        Query("SELECT count(*) FROM hits WHERE advengineid <> 0"),
        Query("SELECT sum(advengineid), count(*), avg(resolutionwidth) FROM hits"),
        Query("SELECT avg(userid) FROM hits"),
        Query("SELECT count(DISTINCT userid) FROM hits"),
        Query("SELECT count(DISTINCT searchphrase) FROM hits"),
        Query("SELECT min(eventdate), max(eventdate) FROM hits"),
        Query("SELECT advengineid, count(*) FROM hits WHERE advengineid <> 0 GROUP BY advengineid ORDER BY count(*) DESC"),
        Query("SELECT regionid, count(DISTINCT userid) AS u FROM hits GROUP BY regionid ORDER BY u DESC", 10, by=(1,)),
        Query("SELECT regionid, sum(advengineid), count(*) AS c, avg(resolutionwidth), count(DISTINCT userid) FROM hits "
              "GROUP BY regionid ORDER BY c DESC", 10, by=(2,)),
        Query("SELECT mobilephonemodel, count(DISTINCT userid) AS u FROM hits WHERE mobilephonemodel <> '' "
              "GROUP BY mobilephonemodel ORDER BY u DESC", 10, by=(1,)),
        Query("SELECT mobilephone, mobilephonemodel, count(DISTINCT userid) AS u FROM hits WHERE mobilephonemodel <> '' "
              "GROUP BY mobilephone, mobilephonemodel ORDER BY u DESC", 10, by=(2,)),
        Query(f"SELECT searchphrase, count(*) AS c {searches} GROUP BY searchphrase ORDER BY c DESC", 10, by=(1,)),
        Query(f"SELECT searchphrase, count(DISTINCT userid) AS u {searches} GROUP BY searchphrase ORDER BY u DESC", 10, by=(1,)),
        Query(f"SELECT searchengineid, searchphrase, count(*) AS c {searches} GROUP BY searchengineid, searchphrase ORDER BY c DESC", 10, by=(2,)),
        Query("SELECT userid, count(*) FROM hits GROUP BY userid ORDER BY count(*) DESC", 10, by=(1,)),
        Query("SELECT userid, searchphrase, count(*) FROM hits GROUP BY userid, searchphrase ORDER BY count(*) DESC", 10, by=(2,)),
        Query("SELECT userid, searchphrase, count(*) FROM hits GROUP BY userid, searchphrase", 10, by=()),
        Query("SELECT userid, extract(minute FROM eventtime) AS m, searchphrase, count(*) FROM hits "
              "GROUP BY userid, m, searchphrase ORDER BY count(*) DESC", 10, by=(3,)),
        Query(f"SELECT userid FROM hits WHERE userid = {VISITOR}"),
        Query("SELECT count(*) FROM hits WHERE url LIKE '%google%'"),
        Query(f"SELECT searchphrase, min(url), count(*) AS c {searches} AND url LIKE '%google%' GROUP BY searchphrase ORDER BY c DESC", 10, by=(2,)),
        Query(f"SELECT searchphrase, min(url), min(title), count(*) AS c, count(DISTINCT userid) {searches} AND title LIKE '%Google%' "
              "AND url NOT LIKE '%.google.%' GROUP BY searchphrase ORDER BY c DESC", 10, by=(3,)),
        Query("SELECT * FROM hits WHERE url LIKE '%google%' ORDER BY eventtime", 10, by=(4,)),
        Query(f"SELECT searchphrase {searches} ORDER BY eventtime", 10, by=()),
        Query(f"SELECT searchphrase {searches} ORDER BY searchphrase", 10),
        Query(f"SELECT searchphrase {searches} ORDER BY eventtime, searchphrase", 10),
        Query("SELECT counterid, avg(length(url)) AS l, count(*) AS c FROM hits WHERE url <> '' "
              f"GROUP BY counterid HAVING count(*) > {many} ORDER BY l DESC", 25, by=(1,)),
        Query(f"SELECT {host} AS k, avg(length(referer)) AS l, count(*) AS c, min(referer) FROM hits WHERE referer <> '' "
              f"GROUP BY k HAVING count(*) > {many} ORDER BY l DESC", 25, by=(1,)),
        Query(f"SELECT sum(resolutionwidth), {widths} FROM hits"),
        Query(f"SELECT searchengineid, clientip, {clients} {searches} GROUP BY searchengineid, clientip ORDER BY c DESC", 10, by=(2,)),
        Query(f"SELECT watchid, clientip, {clients} {searches} GROUP BY watchid, clientip ORDER BY c DESC", 10, by=(2,)),
        Query(f"SELECT watchid, clientip, {clients} FROM hits GROUP BY watchid, clientip ORDER BY c DESC", 10, by=(2,)),
        Query("SELECT url, count(*) AS c FROM hits GROUP BY url ORDER BY c DESC", 10, by=(1,)),
        Query("SELECT 1, url, count(*) AS c FROM hits GROUP BY 1, url ORDER BY c DESC", 10, by=(2,)),
        Query("SELECT clientip, clientip - 1, clientip - 2, clientip - 3, count(*) AS c FROM hits "
              "GROUP BY clientip, clientip - 1, clientip - 2, clientip - 3 ORDER BY c DESC", 10, by=(4,)),
        Query(f"SELECT url, count(*) AS pageviews FROM hits WHERE {july} AND dontcounthits = 0 AND url <> '' "
              "GROUP BY url ORDER BY pageviews DESC", 10, by=(1,)),
        Query(f"SELECT title, count(*) AS pageviews FROM hits WHERE {july} AND dontcounthits = 0 AND title <> '' "
              "GROUP BY title ORDER BY pageviews DESC", 10, by=(1,)),
        Query(f"SELECT url, count(*) AS pageviews FROM hits WHERE {july} AND islink <> 0 AND isdownload = 0 "
              "GROUP BY url ORDER BY pageviews DESC", 10, skipped(1000), (1,)),
        Query(f"SELECT traficsourceid, searchengineid, advengineid, {source} AS src, url AS dst, count(*) AS pageviews FROM hits WHERE {july} "
              "GROUP BY traficsourceid, searchengineid, advengineid, src, dst ORDER BY pageviews DESC", 10, skipped(1000), (5,)),
        Query(f"SELECT urlhash, eventdate, count(*) AS pageviews FROM hits WHERE {july} AND traficsourceid IN (-1, 6) AND refererhash = {REFERER} "
              "GROUP BY urlhash, eventdate ORDER BY pageviews DESC", 10, skipped(100), (2,)),
        Query(f"SELECT windowclientwidth, windowclientheight, count(*) AS pageviews FROM hits WHERE {july} AND dontcounthits = 0 AND urlhash = {PAGE} "
              "GROUP BY windowclientwidth, windowclientheight ORDER BY pageviews DESC", 10, skipped(10_000), (2,)),
        Query(f"SELECT date_trunc('minute', eventtime) AS m, count(*) AS pageviews FROM hits WHERE counterid = {SITE} AND eventdate >= DATE '2013-07-14' "
              "AND eventdate <= DATE '2013-07-15' AND isrefresh = 0 AND dontcounthits = 0 "
              "GROUP BY date_trunc('minute', eventtime) ORDER BY date_trunc('minute', eventtime)", 10, skipped(1000)),
    ]
