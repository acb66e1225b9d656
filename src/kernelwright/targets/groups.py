"""Process groups of long compilations, told to whoever asked for one: it may stop them for a while, or end them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_tell: ContextVar[Callable[[int], None] | None] = ContextVar("kernelwright_compiling", default=None)


@contextmanager
def told(tell: Callable[[int], None]) -> Iterator[None]:
    """Inside, on this thread, `tell` is called with the group of each long compilation that has just started."""
    before = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(before)


def started(group: int) -> None:
    """For languages: a compilation that takes seconds runs in the process group `group`, alone."""
    tell = _tell.get()
    if tell is not None:
        tell(group)
