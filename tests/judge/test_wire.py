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
