"""The hardware: facts and clock."""

__all__: list[str] = []
