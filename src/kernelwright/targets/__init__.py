"""A language on a device, and the broker that compiles."""

__all__: list[str] = []
