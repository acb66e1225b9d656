import threading

from kernelwright.judge.spawn import forkserver


def test_a_child_may_be_closed_from_several_threads_at_once() -> None:
    wire = forkserver().spawn()
    failures: list[BaseException] = []

    def close() -> None:
        try:
            wire.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_a_thread_that_was_only_woken_has_not_waited() -> None:
    wire = forkserver().spawn()
    try:
        first = str(wire.pid)
        before = {first: (0, 0), "own": (0, 0), "helper": (0, 0), "gone": (5, 5)}
        asleep = {first: (300_000, 20_000), "own": (0, 3_000), "helper": (7_000, 290_000)}
        working = {**asleep, "helper": (400_000, 290_000), "new": (400_000, 1_000)}
        assert wire.waited_ns(before, asleep) == 23_000
        assert wire.waited_ns(before, working) == 314_000
    finally:
        wire.close()
