"""Progress bars, by tqdm where it is installed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

Progress = bool | Callable[[int, int], object] | None


@contextmanager
def shown(progress: Progress) -> Iterator[Callable[[int, int], object] | None]:
    """What is to be called with the requests done and expected."""
    if progress is None or progress is False:
        yield None
    elif callable(progress):
        yield progress
    else:
        try:
            tqdm = import_module("tqdm.auto").tqdm
        except ImportError:
            yield _line
            print(file=sys.stderr)
            return
        with tqdm(unit=" requests", unit_scale=True) as bar:

            def update(done: int, expected: int) -> None:
                bar.total = expected
                bar.update(done - bar.n)

            yield update


def _line(done: int, expected: int) -> None:
    share = 100 * done // expected if expected else 0
    print(f"\r{done} of {expected} requests, {share} %", end="", file=sys.stderr, flush=True)
