"""Page traces through cache replacement policies.

>>> import pagecast
>>> trace = pagecast.generate("sequential(streams=8,queries=4,pages=2000)")
>>> result = pagecast.simulate(trace, ["lru", "pbm", "opt"], sizes=["10%", "30%"])
>>> [(row["policy"], row["size_pages"], row["misses"]) for row in result.rows()][:2]
[('lru', 162, 6093), ('lru', 486, 5080)]

`simulate` replays, `curve` makes miss-ratio curves, `Trace` holds requests from an array or a file,
`generate` makes them by rule. A policy may be a class of yours: see `Policy`.
"""

from pagecast._pagecast import Result, Trace, TraceError, __version__, generate, policies, workloads
from pagecast._policy import Policy
from pagecast._simulate import curve, simulate

__all__ = [
    "Policy",
    "Result",
    "Trace",
    "TraceError",
    "__version__",
    "curve",
    "generate",
    "policies",
    "simulate",
    "workloads",
]
