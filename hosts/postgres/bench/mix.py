"""TPC-H queries 1 to 16 with parameters drawn as the specification says, in a random order for each
stream.

Floating point appears nowhere, every query has a total order and no result depends on the order of
rows read, so results can be compared.
"""

import datetime
import random

from bench.query import Query

_SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
_REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
_NATIONS = ["ALGERIA", "BRAZIL", "CANADA", "CHINA", "EGYPT", "FRANCE", "GERMANY", "INDIA", "INDONESIA", "IRAN", "JAPAN", "KENYA", "PERU", "RUSSIA"]
_METALS = ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"]
_FINISHES = ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"]
_GRADES = ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"]
_COLOURS = ["almond", "azure", "blue", "chocolate", "cornsilk", "forest", "green", "ivory", "lemon", "maroon", "orchid", "red", "salmon", "sky"]
_MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]


def queries(rng: random.Random, scale: float, length: int) -> list[Query]:
    """The first `length` of the sixteen queries in a random order."""
    texts = _texts(rng, scale)
    names = rng.sample(sorted(texts), k=min(length, len(texts)))
    return [Query(name, texts[name]) for name in names]


def _day(rng: random.Random, first: str, days: int) -> datetime.date:
    return datetime.date.fromisoformat(first) + datetime.timedelta(rng.randrange(days))


def _month(rng: random.Random, first_year: int, months: int) -> str:
    number = rng.randrange(months)
    return f"{first_year + number // 12}-{number % 12 + 1:02}-01"


def _texts(rng: random.Random, scale: float) -> dict[str, str]:
    revenue = "l_extendedprice * (1 - l_discount)"
    nation, other = rng.sample(_NATIONS, 2)
    mode, other_mode = rng.sample(_MODES, 2)
    quarter, year = _month(rng, 1993, 58), rng.randrange(1993, 1998)
    discount, sizes = rng.randrange(2, 10), ", ".join(map(str, rng.sample(range(1, 51), 8)))
    brand = f"Brand#{rng.randint(1, 5)}{rng.randint(1, 5)}"
    steel = f"{rng.choice(_GRADES)} {rng.choice(_FINISHES)} {rng.choice(_METALS)}"
    return {
        "q01": f"select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum({revenue}), sum({revenue} * (1 + l_tax)), "
               "avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*) from lineitem "
               f"where l_shipdate <= date '1998-12-01' - {rng.randint(60, 120)} group by 1, 2 order by 1, 2",
        "q02": "select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment from part, supplier, partsupp, nation, region "
               f"where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = {rng.randint(1, 50)} and p_type like '%{rng.choice(_METALS)}' "
               f"and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = '{rng.choice(_REGIONS)}' and ps_supplycost = ("
               "select min(b.ps_supplycost) from partsupp b join supplier c on c.s_suppkey = b.ps_suppkey join nation d on d.n_nationkey = c.s_nationkey "
               "where b.ps_partkey = p_partkey and d.n_regionkey = r_regionkey) order by s_acctbal desc, n_name, s_name, p_partkey limit 100",
        "q03": f"select l_orderkey, sum({revenue}) as revenue, o_orderdate, o_shippriority from customer, orders, lineitem "
               f"where c_mktsegment = '{rng.choice(_SEGMENTS)}' and c_custkey = o_custkey and l_orderkey = o_orderkey "
               f"and o_orderdate < '{(cut := _day(rng, '1995-03-01', 31))}' and l_shipdate > '{cut}' "
               "group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10",
        "q04": f"select o_orderpriority, count(*) from orders where o_orderdate >= '{quarter}' and o_orderdate < date '{quarter}' + interval '3 months' "
               "and exists (select from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate) group by 1 order by 1",
        "q05": f"select n_name, sum({revenue}) as revenue from customer, orders, lineitem, supplier, nation, region where c_custkey = o_custkey "
               "and l_orderkey = o_orderkey and l_suppkey = s_suppkey and c_nationkey = s_nationkey and s_nationkey = n_nationkey "
               f"and n_regionkey = r_regionkey and r_name = '{rng.choice(_REGIONS)}' and o_orderdate >= '{year}-01-01' and o_orderdate < '{year + 1}-01-01' "
               "group by n_name order by revenue desc, n_name",
        "q06": f"select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= '{year}-01-01' and l_shipdate < '{year + 1}-01-01' "
               f"and l_discount between 0.{discount - 1:02} and 0.{discount + 1:02} and l_quantity < {rng.choice([24, 25])}",
        "q07": f"select a.n_name, b.n_name, extract(year from l_shipdate) as year, sum({revenue}) from supplier, lineitem, orders, customer, "
               "nation a, nation b where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey and s_nationkey = a.n_nationkey "
               f"and c_nationkey = b.n_nationkey and (a.n_name, b.n_name) in (('{nation}', '{other}'), ('{other}', '{nation}')) "
               "and l_shipdate between '1995-01-01' and '1996-12-31' group by 1, 2, 3 order by 1, 2, 3",
        "q08": f"select extract(year from o_orderdate) as year, round(sum(case when b.n_name = '{nation}' then {revenue} else 0 end) / sum({revenue}), 8) "
               "from part, supplier, lineitem, orders, customer, nation a, nation b, region where p_partkey = l_partkey and s_suppkey = l_suppkey "
               "and l_orderkey = o_orderkey and o_custkey = c_custkey and c_nationkey = a.n_nationkey and a.n_regionkey = r_regionkey "
               f"and r_name = '{rng.choice(_REGIONS)}' and s_nationkey = b.n_nationkey and o_orderdate between '1995-01-01' and '1996-12-31' "
               f"and p_type = '{steel}' group by 1 order by 1",
        "q09": f"select n_name, extract(year from o_orderdate) as year, sum({revenue} - ps_supplycost * l_quantity) from part, supplier, lineitem, partsupp, "
               "orders, nation where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey "
               f"and o_orderkey = l_orderkey and s_nationkey = n_nationkey and p_name like '%{rng.choice(_COLOURS)}%' group by 1, 2 order by 1, 2 desc",
        "q10": f"select c_custkey, c_name, sum({revenue}) as revenue, c_acctbal, n_name, c_address, c_phone, c_comment from customer, orders, lineitem, "
               f"nation where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= '{quarter}' "
               f"and o_orderdate < date '{quarter}' + interval '3 months' and l_returnflag = 'R' and c_nationkey = n_nationkey "
               "group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment order by revenue desc, c_custkey limit 20",
        "q11": "with here as (select ps_partkey, sum(ps_supplycost * ps_availqty) as value from partsupp, supplier, nation "
               f"where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = '{nation}' group by 1) "
               f"select ps_partkey, value from here where value > (select sum(value) * 0.0001 / {max(scale, 0.01):g} from here) order by value desc, ps_partkey",
        "q12": "select l_shipmode, count(*) filter (where o_orderpriority in ('1-URGENT', '2-HIGH')), "
               "count(*) filter (where o_orderpriority not in ('1-URGENT', '2-HIGH')) from orders, lineitem where o_orderkey = l_orderkey "
               f"and l_shipmode in ('{mode}', '{other_mode}') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate "
               f"and l_receiptdate >= '{year}-01-01' and l_receiptdate < '{year + 1}-01-01' group by 1 order by 1",
        "q13": "select orders_of, count(*) as customers from (select c_custkey, count(o_orderkey) as orders_of from customer left join orders "
               "on c_custkey = o_custkey and o_comment not like '%special%requests%' group by 1) as counts group by 1 order by customers desc, orders_of desc",
        "q14": f"select round(100 * sum(case when p_type like 'PROMO%' then {revenue} else 0 end) / sum({revenue}), 8) from lineitem, part "
               f"where l_partkey = p_partkey and l_shipdate >= '{quarter}' and l_shipdate < date '{quarter}' + interval '1 month'",
        "q15": f"with revenue as (select l_suppkey, sum({revenue}) as total from lineitem where l_shipdate >= '{quarter}' "
               f"and l_shipdate < date '{quarter}' + interval '3 months' group by 1) select s_suppkey, s_name, s_address, s_phone, total "
               "from supplier join revenue on s_suppkey = l_suppkey where total = (select max(total) from revenue) order by 1",
        "q16": "select p_brand, p_type, p_size, count(distinct ps_suppkey) as suppliers from partsupp, part where p_partkey = ps_partkey "
               f"and p_brand <> '{brand}' and p_type not like '{rng.choice(_GRADES)} {rng.choice(_FINISHES)}%' and p_size in ({sizes}) and ps_suppkey not in "
               "(select s_suppkey from supplier where s_comment like '%Customer%Complaints%') group by 1, 2, 3 order by suppliers desc, 1, 2, 3",
    }
