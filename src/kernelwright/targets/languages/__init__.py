"""Languages a kernel may be written in: how to compile and load each."""

__all__: list[str] = []
