#!/usr/bin/env python3
"""What AMG-Buffer's paper says of its figures, beside what the simulator gave.

Usage: amg.py FOLDER FIGURE. The folder has the JSON files that reproduction.sh wrote. The text at
hand gives no values of figures, only the differences that its prose states; so only these can be
compared. I/Os are requests to the device: reads, cleaning reads and writes.
"""

import json
import sys
from pathlib import Path

TRADITIONAL = ("lru off", "lirs off", "cflru off", "cfdc off")
MG, AMG, SPILL = "mg(f=20%)", "amg(f=20%,rate=50%,spill=off)", "amg(f=20%,rate=50%,spill=on)"
SHOWN = (*TRADITIONAL, "ccf-lru off", "ad-lru off", "w-tinylfu off", "pbm off", MG, AMG, SPILL, "pbm learn")


def rows(folder: Path, name: str) -> dict[tuple[str, int], dict]:
    found = {}
    for part in ("pages", "tuples"):
        for row in json.loads((folder / f"{name}-{part}.json").read_text())["rows"]:
            found[f"{row['policy']} {row['tuples']}".strip(), row["size_pages"]] = row
    return found


def sizes(of: dict) -> list[int]:
    return sorted({size for _, size in of})


def table(of: dict, size: int, title: str) -> None:
    print(f"\n{title}, {size} pages of memory: hit ratio, thousands of I/Os, of writes")
    for name in SHOWN:
        row = of[name, size]
        hits, requests, writes = 1 - row["misses"] / row["requests"], row["device_requests"], row["write_backs"]
        print(f"  {name:32} {hits:7.4f} {requests / 1000:9.1f} {writes / 1000:9.1f}")


def fewer(of: dict, size: int, ours: str, others: tuple[str, ...], figure: str) -> str:
    """By how much `ours` has less of `figure` than the worst and the best of `others`."""
    parts = [1 - of[ours, size][figure] / of[other, size][figure] for other in others]
    return f"{max(parts):+.1%} at most, {min(parts):+.1%} against the best"


def claim(text: str, measured: str) -> None:
    print(f"  claim: {text}\n   here: {measured}")


def three(folder: Path) -> None:
    for hybrid in (20, 50, 80):
        of = rows(folder, f"amg-3-H{hybrid}")
        table(of, sizes(of)[0], f"R50-H{hybrid}")
        best = max(SHOWN[:-1], key=lambda name, of=of: -of[name, sizes(of)[0]]["misses"])
        claim("3a: AMG has the highest hit ratio, most so at H80", f"without ours the highest has {best}")
    of = rows(folder, "amg-3-sizes")
    for size, said in zip(sizes(of), ("13 % fewer at 32 MB", "23 % fewer at 64 MB", "29 % fewer than MG at 128 MB", "15 % fewer than MG at 256 MB")):
        table(of, size, "R50-H50 by size")
        others = TRADITIONAL if "MG" not in said else (MG,)
        claim(f"4b: I/Os of AMG up to {said}", fewer(of, size, AMG, others, "device_requests"))
    of = rows(folder, "amg-3-skewed")
    table(of, sizes(of)[0], "R50-H50, a fifth of a page's tuples hot (not in the paper)")


def four(folder: Path) -> None:
    for reads, said in ((20, 39), (50, 37), (80, 38)):
        of = rows(folder, f"amg-4-R{reads}")
        size = sizes(of)[0]
        table(of, size, f"R{reads}-H50")
        claim(f"4c: writes up to {said} % fewer than LRU, CFLRU and CFDC", fewer(of, size, AMG, ("lru off", "cflru off", "cfdc off"), "write_backs"))


def one(name: str, title: str, claims: list[tuple[str, tuple[str, ...]]]):
    def show(folder: Path) -> None:
        of = rows(folder, name)
        size = sizes(of)[0]
        table(of, size, title)
        for text, others in claims:
            claim(text, fewer(of, size, AMG, others, "device_requests"))

    return show


FIGURES = {
    "3": three,
    "4": four,
    "5": one("amg-5", "R50-H50", [("5: I/Os up to 29 % fewer than traditional", TRADITIONAL), ("5: and 27 % fewer than MG", (MG,))]),
    "6": one("amg-6", "100 epochs", [("6: AMG best (no number)", (*TRADITIONAL, MG))]),
    "7": one("amg-7", "a large table, 10 %", [("7: I/Os up to 33 % fewer than traditional and MG", (*TRADITIONAL, MG))]),
}

if __name__ == "__main__":
    FIGURES[sys.argv[2]](Path(sys.argv[1]))
    print("\n  Not reconstructed: the parameters of all buffers, times on their SSD, the values of the figures.")
