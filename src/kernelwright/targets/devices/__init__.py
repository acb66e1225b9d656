"""The hardware: what a machine is, and how fast it was measured to be."""

__all__: list[str] = []
