"""ClickBench's table `hits`, generated with the skew of the public sample.

It has the sample's 105 columns and their types, in its order. Names are in lower case, and times
are timestamps and dates, so that every engine reads one file. Each value is a function of the
number of its row. A row belongs to a site (`counterid`), a visitor and a page of the site:

* rows come in ten parts of three days, and are sorted by site in each, as the sample's are;
* visitors are a fifth as many as rows, most have few rows and some very many; two have an address;
* a seventh of the rows is of the first page of its site, a tenth has a URL of its own;
* 87 % of the rows have no search phrase, half of the others one of 5,000, the rest their own.

Columns that no query reads have few values, mostly zeros.
"""

import itertools
import os
from pathlib import Path

# Rows of the public sample, and of a row group of ours.
SAMPLE = 100_000_000
_GROUP = 122_880
_SITES, _SKEW, _PARTS, _PHRASES, _PAGES = 6500, 3.5, 10, 5000, 1_000_000
# What the queries look for: a site, the hash of its first page, and a visitor.
SITE, PAGE, REFERER, VISITOR = 62, 2868770270353813622, 3594120000172545465, 435090932899640449
_SYLLABLES = {"latin": "ka lo mi ne po ra si tu ve do zhi za".split(), "cyrillic": "ка ло ми не по ра си ту ве до жи за".split()}
_WORDS = {language: ["".join(word) for length in (2, 3) for word in itertools.product(of, repeat=length)] for language, of in _SYLLABLES.items()}


def make(folder: Path, rows: int) -> Path:
    """A folder with `hits.parquet`, made whole or not at all."""
    import duckdb

    made = folder / f"{rows}"
    if made.is_dir():
        return made
    unfinished = folder / f"{made.name}.unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    for language, words in _WORDS.items():
        connection.execute(f"SET VARIABLE {language} = ?", [words])
    connection.execute(f"COPY ({_sql(rows)}) TO '{unfinished}/hits.parquet' (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {_GROUP})")
    # So that it may leave the cache.
    os.sync()
    unfinished.rename(made)
    return made


def _hash(salt: int, of: str = "i") -> str:
    """A hash of a number below 2^40. DuckDB's own of two numbers would give columns that depend on
    each other."""
    return f"hash({of} + {salt << 40})"


def _any(count: object, salt: int, of: str = "i") -> str:
    """A number below `count`, each as often as the others."""
    return f"({_hash(salt, of)} % {count})::BIGINT"


def _skewed(count: object, power: float, salt: int, of: str = "i") -> str:
    """A number below `count`: the larger the power, the more often the first ones."""
    return f"floor({count} * pow(({_hash(salt, of)} >> 11) / 9007199254740992.0, {power}))::BIGINT"


def _one_of(values: str, salt: int, of: str = "i") -> str:
    """One of these values, which may stand there several times."""
    return f"[{values}][1 + {_any(len(values.split(',')), salt, of)}]"


def _rarely(thousandths: int, value: str, salt: int, of: str = "i", otherwise: str = "0") -> str:
    """A value in so many of a thousand cases."""
    return f"CASE WHEN {_any(1000, salt, of)} < {thousandths} THEN {value} ELSE {otherwise} END"


def _words(count: int, of: str, salt: int, language: str = "latin", between: str = "-") -> str:
    """So many words, equal ones for an equal `of`."""
    words = (f"getvariable('{language}')[1 + {_any(len(_WORDS[language]), salt + number, of)}]" for number in range(count))
    return f" || '{between}' || ".join(words)


def _url(site: str, page: str) -> str:
    """Of a page of a site. The first one has the host alone."""
    path = f"{_words(1, f'{site} * {_PAGES} + {page}', 110)} || '/' || {_words(4, f'{site} * {_PAGES} + {page}', 111)} || '_' || {page} || '.html'"
    return f"'http://' || {_words(1, site, 100)} || {site} || '.ru/' || CASE {page} WHEN 0 THEN '' ELSE {path} END"


def _sql(rows: int) -> str:
    """The statement that gives the table."""
    of_site = f"{rows} * (pow((site + 1) / {_SITES}, 1 / {_SKEW}) - pow(site / {_SITES}, 1 / {_SKEW}))"
    page = lambda salt: f"CASE WHEN {_any(100, salt)} < 15 THEN 0 ELSE {_skewed('pages', 2, salt + 1)} END"
    asked = lambda salt: _words(3, _any(max(rows // 20, 1), salt), 140, between="+")
    more = _rarely(600, f"' ' || {_words(3, 'phrase', 130, 'cyrillic', ' ')}", 129, "phrase", "''")
    return f"""
    WITH numbers AS (
        SELECT i, i * {_PARTS} // {rows} AS part, floor({_SITES} * pow(i * {_PARTS} % {rows} / {rows}, {_SKEW}))::BIGINT AS site
        FROM range({rows}) AS r (i)),
    keys AS (
        SELECT *, (1 + {of_site} / 10)::BIGINT AS pages, {page(1)} AS page, {page(3)} AS from_page, {_skewed(max(rows // 5, 1), 2, 5)} AS visitor,
            (DATE '2013-07-02' + (part * 3 + {_any(3, 6)})::INTEGER) AS day, {_any(86_400, 7)} AS second, {_any(100, 8)} AS came, {_any(10_000, 9)} AS special,
            CASE WHEN {_any(1000, 10)} < 132 THEN CASE {_any(2, 11)} WHEN 0 THEN {_skewed(_PHRASES, 2, 12)} ELSE {_PHRASES} + {_any(rows, 13)} END END AS phrase
        FROM numbers),
    texts AS (
        SELECT *, site * 61 + 1 AS counter, day + to_seconds(second) AS moment,
            CASE WHEN phrase IS NULL THEN '' ELSE {_words(2, 'phrase', 120, 'cyrillic', ' ')} || {more} END AS searched,
            CASE WHEN special < 3 THEN 'http://www.google.ru/url?q=' || site || '_' || page ELSE {_url('site', 'page')} END
                || CASE WHEN special IN (3, 4) THEN '?from=google' WHEN special >= 9000 THEN '?sid=' || hash(i) ELSE '' END AS address,
            CASE WHEN came < 19 THEN '' WHEN came < 60 THEN {_url('site', 'from_page')}
                WHEN came < 80 THEN 'http://yandex.ru/yandsearch?text=' || {asked(14)} || '&lr=213'
                WHEN came < 90 THEN 'https://www.google.ru/search?q=' || {asked(15)}
                ELSE {_url(_any(3000, 16), 'from_page')} END AS came_from,
            CASE WHEN page % 10 = 7 THEN '' ELSE {_words(6, f'site * {_PAGES} + page', 150, 'cyrillic', ' ')} || ' | ' || {_words(2, 'site', 160, 'cyrillic', ' ')}
                || {_rarely(2, "' - Google'", 17, otherwise="''")} END AS titled
        FROM keys)
    SELECT {', '.join(f'({value})::{kind} AS {name}' for name, kind, value in _COLUMNS)}
    FROM texts"""


# Names, types and values, which may use what stands above.
_COLUMNS = [
    ("watchid", "BIGINT", "hash(i) >> 1"),
    ("javaenable", "SMALLINT", _rarely(800, "1", 20, "visitor")),
    ("title", "VARCHAR", "titled"),
    ("goodevent", "SMALLINT", "1"),
    ("eventtime", "TIMESTAMP", "moment"),
    ("eventdate", "DATE", "day"),
    ("counterid", "INTEGER", "counter"),
    ("clientip", "INTEGER", f"{_any(4_000_000_000, 21, 'visitor // 2')} - 2000000000"),
    ("regionid", "INTEGER", f"1 + {_skewed(9000, 5, 22, 'visitor')}"),
    ("userid", "BIGINT", f"CASE visitor WHEN 1000 THEN {VISITOR} ELSE {_hash(23, 'visitor')} >> 1 END"),
    ("counterclass", "SMALLINT", _rarely(300, "1", 24)),
    ("os", "SMALLINT", _one_of("44, 44, 44, 2, 2, 42, 43, 1, 107, 35", 25, "visitor")),
    ("useragent", "SMALLINT", _one_of("5, 5, 7, 7, 3, 2, 82, 4, 42, 0", 26, "visitor")),
    ("url", "VARCHAR", "address"),
    ("referer", "VARCHAR", "came_from"),
    ("isrefresh", "SMALLINT", _rarely(140, "1", 27)),
    ("referercategoryid", "SMALLINT", _rarely(300, "9000 + came", 28)),
    ("refererregionid", "INTEGER", _rarely(300, "came", 28)),
    ("urlcategoryid", "SMALLINT", "site % 20 * 500"),
    ("urlregionid", "INTEGER", "site % 300"),
    ("resolutionwidth", "SMALLINT", _one_of("1366, 1366, 1280, 1280, 1920, 1920, 1024, 1440, 1600, 1680, 1750, 1996, 768, 0", 29, "visitor")),
    ("resolutionheight", "SMALLINT", _one_of("768, 768, 1024, 800, 1080, 1080, 900, 1050", 30, "visitor")),
    ("resolutiondepth", "SMALLINT", _one_of("23, 23, 23, 37", 31, "visitor")),
    ("flashmajor", "SMALLINT", _one_of("11, 11, 11, 10, 0", 32, "visitor")),
    ("flashminor", "SMALLINT", _one_of("7, 7, 4, 0", 33, "visitor")),
    ("flashminor2", "VARCHAR", _one_of("'700', '700', '169', '224', ''", 34, "visitor")),
    ("netmajor", "SMALLINT", "0"),
    ("netminor", "SMALLINT", "0"),
    ("useragentmajor", "SMALLINT", _any(30, 35, "visitor")),
    ("useragentminor", "VARCHAR", _one_of("'D0', '0.', '31', '12', '7', ''", 36, "visitor")),
    ("cookieenable", "SMALLINT", "1"),
    ("javascriptenable", "SMALLINT", "1"),
    ("ismobile", "SMALLINT", _rarely(60, "1", 37, "visitor")),
    ("mobilephone", "SMALLINT", _rarely(60, f"1 + {_any(40, 38, 'visitor')}", 37, "visitor")),
    ("mobilephonemodel", "VARCHAR", _rarely(60, f"CASE WHEN {_any(10, 39, 'visitor')} < 4 THEN 'iPad' ELSE 'Model ' || {_any(166, 40, 'visitor')} END", 37, "visitor", "''")),
    ("params", "VARCHAR", "''"),
    ("ipnetworkid", "INTEGER", _any(4_000_000, 41, "visitor // 50")),
    ("traficsourceid", "SMALLINT", "CASE WHEN came < 19 THEN 0 WHEN came < 60 THEN -1 WHEN came < 90 THEN 2 WHEN came < 98 THEN 1 ELSE 6 END"),
    ("searchengineid", "SMALLINT", f"CASE WHEN phrase IS NULL THEN 0 ELSE {_one_of('2, 2, 2, 2, 2, 2, 3, 3, 13, 0', 42)} END"),
    ("searchphrase", "VARCHAR", "searched"),
    ("advengineid", "SMALLINT", _rarely(6, _one_of("2, 2, 2, 2, 27, 13, 45, 44, 3, 62, 52, 50, 28, 53, 25, 61, 21, 42", 43), 44)),
    ("isartifical", "SMALLINT", "0"),
    ("windowclientwidth", "SMALLINT", f"300 + {_skewed(1700, 1.5, 45)}"),
    ("windowclientheight", "SMALLINT", f"200 + {_skewed(1000, 1.5, 46)}"),
    ("clienttimezone", "SMALLINT", "135"),
    ("clienteventtime", "TIMESTAMP", f"moment + to_seconds({_any(600, 47)})"),
    ("silverlightversion1", "SMALLINT", _one_of("4, 5, 0", 48, "visitor")),
    ("silverlightversion2", "SMALLINT", "1"),
    ("silverlightversion3", "INTEGER", _one_of("16561, 10411, 0", 48, "visitor")),
    ("silverlightversion4", "SMALLINT", "0"),
    ("pagecharset", "VARCHAR", "CASE site % 3 WHEN 0 THEN 'windows' ELSE 'utf-8' END"),
    ("codeversion", "INTEGER", "site % 40 + 1600"),
    ("islink", "SMALLINT", _rarely(300, "1", 49)),
    ("isdownload", "SMALLINT", _rarely(20, "1", 50)),
    ("isnotbounce", "SMALLINT", _rarely(100, "1", 51)),
    ("funiqid", "BIGINT", f"{_hash(52, 'visitor')} >> 1"),
    ("originalurl", "VARCHAR", _rarely(20, "address", 53, otherwise="''")),
    ("hid", "INTEGER", _any(1_073_741_824, 54)),
    ("isoldcounter", "SMALLINT", "0"),
    ("isevent", "SMALLINT", "0"),
    ("isparameter", "SMALLINT", "0"),
    ("dontcounthits", "SMALLINT", _rarely(60, "1", 55)),
    ("withhash", "SMALLINT", "0"),
    ("hitcolor", "VARCHAR", _one_of("'5', '5', '5', '5', 'g', 'E', 'S', 'W'", 56)),
    ("localeventtime", "TIMESTAMP", "moment + to_hours(4)"),
    ("age", "SMALLINT", _one_of("0, 0, 16, 22, 26, 31, 39, 50, 55", 57, "visitor")),
    ("sex", "SMALLINT", _one_of("0, 1, 2", 58, "visitor")),
    ("income", "SMALLINT", _one_of("0, 1, 2, 3", 59, "visitor")),
    ("interests", "SMALLINT", _any(16_000, 60, "visitor")),
    ("robotness", "SMALLINT", _rarely(100, "1", 61, "visitor")),
    ("remoteip", "INTEGER", f"{_any(4_000_000_000, 21, 'visitor // 2')} - 2000000000"),
    ("windowname", "INTEGER", _rarely(200, _any(2_000_000_000, 62), 63, otherwise="-1")),
    ("openername", "INTEGER", _rarely(100, _any(2_000_000_000, 64), 65, otherwise="-1")),
    ("historylength", "SMALLINT", _skewed(50, 3, 66)),
    ("browserlanguage", "VARCHAR", _one_of("'ru', 'ru', 'ru', 'uk', 'en'", 67, "visitor")),
    ("browsercountry", "VARCHAR", _one_of("'RU', 'RU', 'UA', 'KZ', 'BY'", 68, "visitor")),
    ("socialnetwork", "VARCHAR", "''"),
    ("socialaction", "VARCHAR", "''"),
    ("httperror", "SMALLINT", "0"),
    ("sendtiming", "INTEGER", _rarely(200, _any(2000, 69), 70)),
    ("dnstiming", "INTEGER", _rarely(200, _any(300, 71), 70)),
    ("connecttiming", "INTEGER", _rarely(200, _any(500, 72), 70)),
    ("responsestarttiming", "INTEGER", _rarely(200, _any(3000, 73), 70)),
    ("responseendtiming", "INTEGER", _rarely(200, _any(3000, 74), 70)),
    ("fetchtiming", "INTEGER", _rarely(200, _any(9000, 75), 70)),
    ("socialsourcenetworkid", "SMALLINT", _rarely(20, "1 + came % 5", 76)),
    ("socialsourcepage", "VARCHAR", "''"),
    ("paramprice", "BIGINT", "0"),
    ("paramorderid", "VARCHAR", "''"),
    ("paramcurrency", "VARCHAR", _rarely(10, "'RUB'", 77, otherwise="''")),
    ("paramcurrencyid", "SMALLINT", "0"),
    ("openstatservicename", "VARCHAR", _rarely(10, "'market.yandex.ru'", 78, otherwise="''")),
    ("openstatcampaignid", "VARCHAR", "''"),
    ("openstatadid", "VARCHAR", "''"),
    ("openstatsourceid", "VARCHAR", "''"),
    ("utmsource", "VARCHAR", _rarely(15, "'direct'", 79, otherwise="''")),
    ("utmmedium", "VARCHAR", _rarely(15, "'cpc'", 79, otherwise="''")),
    ("utmcampaign", "VARCHAR", _rarely(15, "'campaign ' || site", 79, otherwise="''")),
    ("utmcontent", "VARCHAR", "''"),
    ("utmterm", "VARCHAR", "''"),
    ("fromtag", "VARCHAR", _rarely(5, "'top'", 80, otherwise="''")),
    ("hasgclid", "SMALLINT", _rarely(5, "1", 81)),
    ("refererhash", "BIGINT", f"CASE WHEN counter = {SITE} AND came BETWEEN 19 AND 59 AND from_page = 0 THEN {REFERER} ELSE hash(came_from) >> 1 END"),
    ("urlhash", "BIGINT", f"CASE WHEN counter = {SITE} AND page = 0 THEN {PAGE} ELSE hash(address) >> 1 END"),
    ("clid", "INTEGER", "0"),
]
