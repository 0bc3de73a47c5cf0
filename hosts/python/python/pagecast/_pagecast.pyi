"""What Rust makes; see the docstrings of the classes and functions."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias, final

from pagecast._simulate import Policies, Sizes, Traces

#: Whatever lends its memory as whole numbers: numpy.ndarray, memoryview, array.array. No type says
#: that before Python 3.12.
_Array: TypeAlias = Any

__all__: list[str]
__version__: str

class TraceError(ValueError): ...

@final
class Trace:
    def __new__(
        cls,
        pages: _Array,
        *,
        writes: _Array | None = None,
        streams: _Array | None = None,
        scans: _Array | None = None,
        report: int = 16,
        name: str = "array",
    ) -> Trace: ...
    @staticmethod
    def open(path: str | os.PathLike[str], format: str = "auto") -> Trace: ...
    def sample(self, rate: float, seed: int = 1) -> Trace: ...
    @property
    def name(self) -> str: ...
    @property
    def unique(self) -> int: ...
    @property
    def writes(self) -> int: ...
    @property
    def streams(self) -> int: ...
    @property
    def scans(self) -> int: ...
    def __len__(self) -> int: ...
    def to_html(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...

@final
class Result:
    def __len__(self) -> int: ...
    @property
    def columns(self) -> list[str]: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def to_html(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...

def generate(workload: str, seed: int = 1) -> Trace: ...
def policies() -> list[str]: ...
def workloads() -> dict[str, str]: ...
def simulate(
    traces: Traces,
    policies: Policies,
    sizes: Sizes,
    *,
    format: str,
    page_size: int | str,
    latency: int | None,
    seed: int,
    threads: int | None,
    progress: Callable[[int, int], object] | None,
) -> Result: ...
def curve(
    traces: Traces,
    policies: Policies,
    points: int,
    *,
    sample: float,
    format: str,
    seed: int,
    threads: int | None,
    progress: Callable[[int, int], object] | None,
) -> Result: ...
