"""Loops as users write them."""

import numpy as np


def shuffle_mul(a, b, operator, res):
    res[:] = 0.0
    for n in range(operator.shape[0]):
        i, j, k, count = operator[n]
        res[k] += count * a[i] * b[j]


def axpy(x, y, alpha=2.0):
    for i in range(x.shape[0]):
        y[i] += alpha * x[i]


def transpose_into(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j, i] = x[i, j]


def extremes(x):
    low, high = x[0], x[0]
    for i in range(x.shape[0]):
        low = min(low, x[i])
        high = max(high, x[i])
    return low, high, x.shape[0]


def divided(x, n):
    for i in range(x.shape[0]):
        x[i] = 100 // n


def operands(length: int, *, seed: int = 0, places: int = 127, size: int = 15):
    """a, b, operator and res of shuffle_mul."""
    random = np.random.default_rng(seed)
    columns = [random.integers(0, limit, length) for limit in (size, size, places)]
    operator = np.stack([*columns, random.integers(1, 9, length)], axis=1)
    return random.standard_normal(size), random.standard_normal(size), operator, np.zeros(places)


def shuffled(a, b, operator, places: int = 127):
    """What shuffle_mul computes, by NumPy."""
    i, j, k, count = operator.T
    return np.bincount(k, count * a[i] * b[j], minlength=places)
