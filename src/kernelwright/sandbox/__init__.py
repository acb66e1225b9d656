"""Closes a process: files, network, other processes, memory, time. Standard library only."""

__all__: list[str] = []
