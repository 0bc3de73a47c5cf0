"""Bad input: a Python exception, with the command's sentence."""

from pathlib import Path

import numpy as np
import pagecast
import pytest

IDS = np.arange(100, dtype=np.uint64)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: pagecast.simulate(IDS, "lrx", 10), ValueError, "unknown policy `lrx`; there are 2q, ad-lru"),
        (lambda: pagecast.simulate(IDS, "lru(k=2)", 10), ValueError, "takes no parameters, not even `k`"),
        (lambda: pagecast.simulate(IDS, [], 10), ValueError, "policies: at least one"),
        (lambda: pagecast.simulate(IDS, [object()], 10), TypeError, "called with the number of frames"),
        (lambda: pagecast.simulate(IDS, "lru", 0), ValueError, "a pool of 0 pages holds nothing"),
        (lambda: pagecast.simulate(IDS, "lru", "101%"), ValueError, "not above 0 % and up to 100 %"),
        (lambda: pagecast.simulate(IDS, "lru", 1.5), ValueError, "1.5 is no share"),
        (lambda: pagecast.simulate(IDS, "lru", "3 parsecs"), ValueError, "is no unit of size"),
        (lambda: pagecast.simulate(IDS, "lru", []), ValueError, "sizes: at least one"),
        (lambda: pagecast.simulate(IDS, "lru", 1 << 40), ValueError, "2^32 - 1"),
        (lambda: pagecast.simulate(IDS, "lru", 9, page_size="x"), ValueError, "page_size: `x` is no size"),
        (lambda: pagecast.simulate(IDS, "opt", 9, latency=5), ValueError, "cannot run in logical time"),
        (lambda: pagecast.simulate([], "lru", 9), ValueError, "traces: at least one"),
        (lambda: pagecast.simulate(IDS * 0.5, "lru", 9), TypeError, "pages: whole numbers are wanted"),
        (lambda: pagecast.simulate([[1, 2]], "lru", 9), TypeError, "pages: an array is wanted"),
        (lambda: pagecast.simulate(IDS[::2], "lru", 9), ValueError, "ascontiguousarray"),
        (lambda: pagecast.simulate(IDS.reshape(2, 50), "lru", 9), ValueError, "of one dimension"),
        (lambda: pagecast.simulate(IDS[:0], "lru", 9), pagecast.TraceError, "holds no requests"),
        (lambda: pagecast.Trace(IDS, writes=IDS[:3]), ValueError, "writes: 3 entries for 100 requests"),
        (lambda: pagecast.Trace(IDS, streams=-IDS.astype(np.int64)), pagecast.TraceError, "request 1: stream -1"),
        (lambda: pagecast.Trace(IDS).sample(0.0), ValueError, "rate: 0 is not above 0"),
        (lambda: pagecast.generate("zap"), ValueError, "unknown workload `zap`"),
        (lambda: pagecast.generate("loop(pages=0)"), ValueError, "`pages=0` must be"),
        (lambda: pagecast.curve(IDS, "lru", 1), ValueError, "points: 1 is not from 2 to 1000"),
        (lambda: pagecast.curve(IDS, "lru", 5, sample=2), ValueError, "sample: 2 is not"),
        (lambda: pagecast.simulate("no such file", "lru", 9), pagecast.TraceError, "no such file: No such file"),
        (lambda: pagecast.simulate(IDS, "lru", 9, format="tar"), ValueError, "unknown format `tar`"),
    ],
)
def test_it_says_what_is_wrong(call, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert words in str(raised.value)


def test_a_bad_file_is_named_with_the_line(tmp_path: Path) -> None:
    bad, worse = tmp_path / "bad.txt", tmp_path / "worse.txt"
    bad.write_text("1\n2\nthree\n")
    worse.write_text("x\n")
    with pytest.raises(pagecast.TraceError, match=r"bad\.txt: line 3: `three` is no page") as raised:
        pagecast.simulate([bad, worse], "lru", 2)
    assert "worse.txt: line 1" in raised.value.__notes__[0]
