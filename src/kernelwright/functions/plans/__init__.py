"""Plans for loops that scatter: `for n in ...: res[k] += ...` over the rows of arrays that cannot change."""

__all__: list[str] = []
