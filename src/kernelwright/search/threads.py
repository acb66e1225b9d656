"""Threads that a program need not wait for when it ends.

concurrent.futures joins its threads at exit. A stock compiler that was given up when the budget ended may run for
another minute, and nobody should sit through that.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class DaemonThreads:
    """`count` threads that take work in the order in which it was handed over."""

    def __init__(self, count: int, name: str) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None]
        self._work = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, name=f"{name}-{i}", daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        """Work that has not begun can be cancelled through the future."""
        future: Future[Result] = Future()
        self._work.put((future, work, arguments))
        return future

    def close(self) -> None:
        """Ends the threads after the work they have."""
        for _ in self._threads:
            self._work.put(None)

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            future, work, arguments = item
            if future.set_running_or_notify_cancel():
                try:
                    result = work(*arguments)
                except BaseException as error:  # whoever waits for the result is told
                    future.set_exception(error)
                else:
                    future.set_result(result)
