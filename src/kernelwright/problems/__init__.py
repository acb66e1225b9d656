"""Anything a user has as a Problem, and the inputs its cases stand for."""

__all__: list[str] = []
