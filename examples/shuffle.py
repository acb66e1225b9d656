"""The function this project was founded on: a sparse bilinear product, res[k] += count * a[i] * b[j].

    kernelwright advise examples/shuffle.py:shuffle_mul --sizes L=943,1e4,1e5,1e6,1e7

`arguments(**sizes)` says how a size becomes arguments: the verb calls arguments(L=943), arguments(L=10000), ...
"""

import numpy as np

import kernelwright as kw


@kw.njit
def shuffle_mul(a, b, operator, res):
    """a, b: (n,) float64, operator: (L, 4) int64 rows (i, j, k, count), res: (K,) float64, which is overwritten."""
    res[:] = 0.0
    for n in range(operator.shape[0]):
        i, j, k, count = operator[n]
        res[k] += count * a[i] * b[j]


def arguments(L: int, n: int = 15, K: int = 127):
    """Random factors and an operator of L rows."""
    random = np.random.default_rng(0)
    columns = [random.integers(0, limit, L) for limit in (n, n, K)]
    operator = np.stack([*columns, random.integers(1, 9, L)], axis=1)
    return random.standard_normal(n), random.standard_normal(n), operator, np.zeros(K)


if __name__ == "__main__":
    a, b, operator, res = arguments(943)
    operator = kw.constant(operator)  # it never changes: the first call makes plans for it
    shuffle_mul(a, b, operator, res)
    print(res[:4], [choice.name for choice in shuffle_mul.plans.values()])
