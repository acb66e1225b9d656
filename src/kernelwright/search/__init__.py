"""Who tries what next, and for how long."""

__all__: list[str] = []
