"""Where candidates are judged: on this machine, or on the nodes of a cluster. One file an executor."""

from kernelwright.search.executors.executor import Executor, executor_named

__all__ = ["Executor", "executor_named"]
