"""Builds, verifies, catches cheats, times and confirms. What runs here is never believed, only measured."""

__all__: list[str] = []
