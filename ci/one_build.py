#!/usr/bin/env python3
"""Whether command, server, their tests and the wheel share one build; part of `make lint`.

Cargo compiles a crate once more for each set of features that somebody wants of it, and everything
above it, too. DataFusion is above nearly all. So the features of each crate that two of them have
must be the same. Where they are not, this names the crate: its features then go into the list at
the end of the dependencies of pagecast-sql, which all of them stand on.
"""

import itertools
import subprocess
import sys

BUILDS = {
    "the command": ["-e", "normal,build", "-p", "pagecast-cli"],
    "the server": ["-e", "normal,build", "-p", "pagecast-cli", "--features", "flight"],
    "the tests": ["-e", "normal,build,dev", "-p", "pagecast-tables", "-p", "pagecast-datafusion",
                  "-p", "pagecast-delta", "-p", "pagecast-iceberg", "-p", "pagecast-ducklake",
                  "-p", "pagecast-sql", "-p", "pagecast-fuzz", "-p", "pagecast-server", "-p", "pagecast-cli",
                  "--features", "pagecast-cli/flight,pagecast-cli/iceberg,pagecast-cli/ducklake"],
    "the wheel": ["-e", "normal,build", "-p", "pagecast-python-sql"],
}
# Ours: above the others, and built in seconds; or with the formats that a build chooses.
LEFT_OUT = ("pagecast-cli ", "pagecast-sim ", "pagecast-sql ")


def features(arguments: list[str]) -> dict[str, set[str]]:
    """The sets of features with which each version of a crate is built."""
    words = ["cargo", "tree", "--locked", "--prefix", "none", "-f", "{p}\t{f}", *arguments]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: dict[str, set[str]] = {}
    for line in listed.splitlines():
        crate, _, of = line.removesuffix(" (*)").partition("\t")
        found.setdefault(crate, set()).add(of.removesuffix(" (*)"))
    return found


def main() -> int:
    builds = {name: features(arguments) for name, arguments in BUILDS.items()}
    faults = 0
    for one, other in itertools.combinations(builds, 2):
        for crate in sorted(builds[one].keys() & builds[other].keys()):
            ours, theirs = builds[one][crate], builds[other][crate]
            if ours != theirs and not crate.startswith(LEFT_OUT):
                faults += 1
                print(f"{crate} is built twice: {one} wants {sorted(ours)}, {other} {sorted(theirs)}")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
