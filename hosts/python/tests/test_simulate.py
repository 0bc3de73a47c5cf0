"""Counts, sizes, scans and time: what a replay from Python gives."""

import lzma
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pagecast
import polars
import pytest


def zipf(requests: int = 50_000, pages: int = 2_000, seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).zipf(1.2, requests) % pages).astype(np.uint64)


def lru_misses(ids: np.ndarray, frames: int) -> int:
    """By the book, in Python alone."""
    order: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for page in ids.tolist():
        if page in order:
            order.move_to_end(page)
            continue
        misses += 1
        if len(order) == frames:
            order.popitem(last=False)
        order[page] = None
    return misses


@pytest.mark.parametrize("frames", [1, 17, 300])
def test_lru_misses_as_by_the_book(frames: int) -> None:
    ids = zipf()
    [row] = pagecast.simulate(ids, "lru", frames).rows()
    assert (row["requests"], row["misses"]) == (len(ids), lru_misses(ids, frames))


def test_every_policy_runs_and_none_beats_opt() -> None:
    result = pagecast.simulate(zipf(), pagecast.policies(), ["1%", "20%"])
    assert len(result) == 2 * len(pagecast.policies())
    rows = result.rows()
    least = {row["size_pages"]: row["misses"] for row in rows if row["policy"] == "opt"}
    assert all(row["misses"] >= least[row["size_pages"]] for row in rows)


def test_sizes_are_pages_shares_and_bytes() -> None:
    ids = np.arange(1000, dtype=np.int64)
    sizes = [100, 0.25, "30%", "1MiB", "64KiB"]
    result = pagecast.simulate(ids, "lru", sizes, page_size="16KiB")
    assert [row["size_pages"] for row in result.rows()] == [100, 250, 300, 64, 4]
    assert [row["size_pages"] for row in pagecast.simulate(ids, "lru", "100,30%").rows()] == [100, 300]


def test_more_threads_change_nothing() -> None:
    def misses(threads: int) -> list[int]:
        result = pagecast.simulate([zipf(), zipf(seed=2)], "lru,arc,random,pbm", ["5%", 100], threads=threads)
        return [row["misses"] for row in result.rows()]

    assert misses(1) == misses(4)


def scans_of(readers: int, pages: int, apart: int) -> tuple[np.ndarray, np.ndarray]:
    """Readers of one table, each so many steps behind the one in front: pages and scan numbers."""
    ids, scans = [], []
    for step in range(pages + apart * (readers - 1)):
        for reader in range(readers):
            if 0 <= (page := step - reader * apart) < pages:
                ids.append(page)
                scans.append(reader)
    return np.array(ids, dtype=np.uint64), np.array(scans, dtype=np.int32)


def test_scans_are_known_to_pbm() -> None:
    ids, scans = scans_of(4, 600, 150)
    known = pagecast.Trace(ids, scans=scans, report=1)
    assert (known.scans, pagecast.Trace(ids).scans) == (4, 0)

    def misses(trace: pagecast.Trace, policy: str) -> int:
        return pagecast.simulate(trace, policy, 180).rows()[0]["misses"]

    # Nobody registers in the second: there is nothing to predict from.
    pbm, blind = misses(known, "pbm(samples=all)"), misses(pagecast.Trace(ids), "pbm(samples=all)")
    assert pbm < 0.7 * min(blind, misses(known, "lru"))
    assert pbm >= misses(known, "opt")


def test_scans_of_arrays_are_those_of_a_trace() -> None:
    made = pagecast.generate("sequential(streams=8,queries=4,pages=2000,slow=1)")
    table = polars.DataFrame(made)
    scans = table["scan"].cast(polars.Int64).fill_null(-1).to_numpy()
    again = pagecast.Trace(table["page"].to_numpy(), scans=scans, streams=table["stream"].to_numpy())
    assert again.scans == made.scans == 32
    # In logical time the events come at the same moments. In the order of the trace a report comes
    # right behind its request, and not before the stream's next.
    own, other = (pagecast.simulate(trace, "pbm,pbm-paper", "10%", latency=10) for trace in (again, made))
    kept = ("policy", "misses", "ticks", "opt_misses")
    assert [[row[name] for name in kept] for row in own.rows()] == [
        [row[name] for name in kept] for row in other.rows()
    ]


def test_scans_in_any_order_and_over_relations_register() -> None:
    random = np.random.default_rng(5)
    ids = random.permutation(500).astype(np.uint64) | (random.integers(1, 4, 500).astype(np.uint64) << np.uint64(32))
    scans = np.where(random.random(500) < 0.3, -1, random.integers(0, 5, 500) * 1_000_000)
    trace = pagecast.Trace(np.concatenate([ids, ids[::-1]]), scans=np.concatenate([scans, scans]))
    assert trace.scans == 5
    assert pagecast.simulate(trace, "pbm,pbm-pq", "20%").rows()[0]["requests"] == 1000


def test_writes_and_streams() -> None:
    ids = np.array([1, 1, 2, 3, 4, 3])
    writes = np.array([True, True, False, True, False, False])
    [row] = pagecast.simulate(pagecast.Trace(ids, writes=writes), "lru", 2).rows()
    assert (row["misses"], row["writes"], row["write_backs"]) == (4, 3, 1)
    # Stream 0 hits nine times, stream 1 misses ten times.
    ids = np.array([0] * 10 + list(range(1, 11)))
    trace = pagecast.Trace(ids, streams=np.array([0] * 10 + [1] * 10))
    [row] = pagecast.simulate(trace, "lru", 20, latency=9).rows()
    assert (trace.streams, row["ticks"], row["opt_misses"]) == (2, 100, 11)


def test_files_of_all_kinds(tmp_path: Path) -> None:
    ids = zipf(5_000, 300)
    text = "".join(f"{page}\n" for page in ids)
    (tmp_path / "t.txt").write_text(text)
    (tmp_path / "t.txt.xz").write_bytes(lzma.compress(text.encode()))
    (tmp_path / "t.csv").write_text("time,lbn,op\n" + "".join(f"{at},{page},r\n" for at, page in enumerate(ids)))
    want = lru_misses(ids, 30)
    files = [tmp_path / "t.txt", str(tmp_path / "t.txt.xz")]
    assert [row["misses"] for row in pagecast.simulate(files, "lru", 30).rows()] == [want, want]
    [row] = pagecast.simulate(tmp_path / "t.csv", "lru", 30, format="csv(page=lbn)").rows()
    assert row["misses"] == want
    assert len(pagecast.Trace.open(tmp_path / "t.txt")) == 5_000


def test_curves_agree_with_replays() -> None:
    ids = zipf()
    points = pagecast.curve(ids, "lru,opt,clock", 6).rows()
    sizes = [row["size_pages"] for row in points[:6]]
    for policy in ("lru", "opt", "clock"):
        of = [row["miss_ratio"] for row in points if row["policy"] == policy]
        rows = pagecast.simulate(ids, policy, sizes).rows()
        assert of == pytest.approx([row["miss_ratio"] for row in rows])
    sampled = pagecast.curve(ids, "lru", 6, sample=0.5).rows()
    assert 0.3 < sampled[0]["sampled"] < 0.7


def test_generated_traces_repeat() -> None:
    def misses(seed: int) -> int:
        trace = pagecast.generate("ycsb(operations=20000,pages=1000)", seed)
        return pagecast.simulate(trace, "arc", 0.1).rows()[0]["misses"]

    assert misses(3) == misses(3) != misses(4)
    assert "sequential" in pagecast.workloads()


def test_a_sample_is_of_some_pages() -> None:
    trace = pagecast.Trace(zipf())
    sample = trace.sample(0.5, seed=2)
    assert 0.3 < sample.unique / trace.unique < 0.7


def test_pages_for_a_notebook() -> None:
    result = pagecast.simulate(zipf(1_000), "lru,opt", "5%,20%")
    page = result.to_html()
    assert page.startswith("<!doctype html>") and "Miss ratio of array" in page
    assert "lru" in repr(result) and "seed 1" in repr(result)
    frame = result._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and frame.count('"') == 6
    assert "Miss ratio" in pagecast.curve(zipf(1_000), "lru", 5).to_html()
    assert "Page accesses" in pagecast.Trace(zipf(1_000)).to_html()
