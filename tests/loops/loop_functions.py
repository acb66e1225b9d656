"""Loop functions as people write them, each with arguments to run it on. Plain Python is what they are compared with.

`CASES` maps a name to (function, arguments); `arguments(rng, real)` makes them, floats of dtype `real`. What a function
does not return it writes into its arrays.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

CASES: dict[str, tuple[Callable[..., Any], Callable[..., tuple[Any, ...]]]] = {}
MASK = 0x7FFFFFFF


def case(arguments: Callable[..., tuple[Any, ...]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = (function, arguments)
        return function

    return add


def numbers(rng: np.random.Generator, real: str, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(real)


def whole(rng: np.random.Generator, high: int, *shape: int, type: str = "int64") -> np.ndarray:
    return rng.integers(0, high, shape).astype(type)


# ---- sums and scatters ----------------------------------------------------------------------------------------------


@case(lambda rng, real: (whole(rng, 16, 500), np.zeros(16, np.int64)))
def histogram(values, bins):
    for value in range(len(values)):
        bins[values[value]] += 1


@case(lambda rng, real: (numbers(rng, real, 300), -2.0, 0.5, np.zeros(8, np.int32)))
def histogram_of_floats(x, low, width, bins):
    for n in range(x.size):
        place = math.floor((x[n] - low) / width)
        if 0 <= place < bins.shape[0]:
            bins[place] += 1


@case(lambda rng, real: (numbers(rng, real, 200), whole(rng, 200, 201), numbers(rng, real, 200), np.zeros(50, real)))
def segment_sum(x, starts, y, out):
    for k in range(out.shape[0]):
        total = 0.0
        for n in range(k * 4, k * 4 + 4):
            total += x[n] * y[n]
        out[k] = total


def csr(rng, real):
    counts = whole(rng, 5, 30)
    pointers = np.concatenate([[0], np.cumsum(counts)])
    return (
        pointers,
        whole(rng, 40, int(pointers[-1]), type="int32"),
        numbers(rng, real, int(pointers[-1])),
        numbers(rng, real, 40),
        np.empty(30, real),
    )


@case(csr)
def spmv_csr(pointers, columns, values, x, y):
    for row in range(y.shape[0]):
        total = 0.0
        for n in range(pointers[row], pointers[row + 1]):
            total += values[n] * x[columns[n]]
        y[row] = total


@case(
    lambda rng, real: (
        whole(rng, 30, 200, type="int32"),
        whole(rng, 40, 200, type="uint16"),
        numbers(rng, real, 200),
        numbers(rng, real, 40),
        np.empty(30, real),
    )
)
def spmv_coo(rows, columns, values, x, y):
    y[:] = 0.0
    for n in range(len(values)):
        y[rows[n]] += values[n] * x[columns[n]]


@case(
    lambda rng, real: (
        numbers(rng, real, 15),
        numbers(rng, real, 15),
        np.stack([whole(rng, 15, 300), whole(rng, 15, 300), whole(rng, 31, 300), whole(rng, 4, 300)], 1),
        np.empty(31, real),
    )
)
def shuffle_mul(a, b, operator, res):
    res[:] = 0.0
    for n in range(operator.shape[0]):
        i, j, k, count = operator[n]
        res[k] += count * a[i] * b[j]


@case(lambda rng, real: (numbers(rng, real, 100), np.empty(100, real)))
def prefix_sum(x, out):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
        out[i] = total


@case(lambda rng, real: (numbers(rng, real, 200),))
def logsumexp(x):
    top = x[0]
    for i in range(1, len(x)):
        top = max(top, x[i])
    total = 0.0
    for i in range(len(x)):
        total += math.exp(x[i] - top)
    return top + math.log(total)


@case(lambda rng, real: (numbers(rng, real, 150),))
def argmin(x):
    best = 0
    for i in range(1, x.shape[0]):
        if x[i] < x[best]:
            best = i
    return best


@case(lambda rng, real: (numbers(rng, real, 150),))
def mean_and_variance(x):
    mean = 0.0
    m2 = 0.0
    for i in range(len(x)):
        delta = x[i] - mean
        mean += delta / (i + 1)
        m2 += delta * (x[i] - mean)
    return mean, m2 / (len(x) - 1)


@case(lambda rng, real: (whole(rng, 100, 300, type="uint8"), 30.0))
def percentile_by_counting(x, percent):
    counts = np.zeros(256, np.int64)
    for i in range(len(x)):
        counts[x[i]] += 1
    wanted = percent / 100.0 * len(x)
    seen = 0
    for value in range(256):
        seen += counts[value]
        if seen >= wanted:
            return value
    return -1


@case(lambda rng, real: (numbers(rng, real, 60), numbers(rng, real, 60)))
def correlation(x, y):
    n = len(x)
    sx = sy = sxx = syy = sxy = 0.0
    for i in range(n):
        sx += x[i]
        sy += y[i]
        sxx += x[i] * x[i]
        syy += y[i] * y[i]
        sxy += x[i] * y[i]
    return (n * sxy - sx * sy) / math.sqrt((n * sxx - sx**2) * (n * syy - sy**2))


@case(lambda rng, real: (whole(rng, 3, 120), np.zeros(120, np.int64), np.zeros(120, np.int64)))
def run_length(x, values, lengths):
    count = 0
    i = 0
    while i < len(x):
        j = i
        while j < len(x) and x[j] == x[i]:
            j += 1
        values[count] = x[i]
        lengths[count] = j - i
        count += 1
        i = j
    return count


# ---- grids ----------------------------------------------------------------------------------------------------------


@case(lambda rng, real: (numbers(rng, real, 20, 24), np.zeros((20, 24), real)))
def heat_step(u, out):
    rows, columns = u.shape
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            out[i, j] = u[i, j] + 0.1 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])


@case(lambda rng, real: (whole(rng, 2, 18, 20, type="uint8"), np.zeros((18, 20), np.uint8)))
def game_of_life(board, out):
    rows, columns = board.shape
    for i in range(rows):
        for j in range(columns):
            alive = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di != 0 or dj != 0:
                        alive += board[(i + di) % rows, (j + dj) % columns]
            if alive == 3 or (board[i, j] == 1 and alive == 2):
                out[i, j] = 1
            else:
                out[i, j] = 0


@case(lambda rng, real: (numbers(rng, real, 12, 12), 5))
def gauss_seidel(u, steps):
    n = u.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@case(lambda rng, real: (numbers(rng, real, 16, 17), numbers(rng, real, 3, 5), np.zeros((14, 13), real)))
def convolution(image, weight, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = 0.0
            for di in range(weight.shape[0]):
                for dj in range(weight.shape[1]):
                    total += image[i + di, j + dj] * weight[di, dj]
            out[i, j] = total


@case(lambda rng, real: (numbers(rng, real, 12, 13), np.zeros((12, 13), real), 2))
def bilateral(image, out, radius):
    rows, columns = image.shape
    for i in range(rows):
        for j in range(columns):
            weights = 0.0
            total = 0.0
            for y in range(max(0, i - radius), min(rows, i + radius + 1)):
                for x in range(max(0, j - radius), min(columns, j + radius + 1)):
                    near = (y - i) ** 2 + (x - j) ** 2
                    like = (image[y, x] - image[i, j]) ** 2
                    w = math.exp(-near / 8.0 - like / 2.0)
                    weights += w
                    total += w * image[y, x]
            out[i, j] = total / weights


@case(lambda rng, real: (np.zeros((12, 16), np.int32), 40))
def mandelbrot(out, limit):
    rows, columns = out.shape
    for i in range(rows):
        for j in range(columns):
            cr = -2.0 + 3.0 * j / columns
            ci = -1.0 + 2.0 * i / rows
            zr = zi = 0.0
            count = 0
            while zr * zr + zi * zi <= 4.0 and count < limit:
                zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
                count += 1
            out[i, j] = count


@case(lambda rng, real: (numbers(rng, real, 40), np.zeros(36, real)))
def sliding_maximum(x, out):
    for i in range(len(out)):
        best = x[i]
        for j in range(1, 5):
            if x[i + j] > best:
                best = x[i + j]
        out[i] = best


@case(lambda rng, real: (numbers(rng, real, 40), np.zeros(40, real), 3))
def moving_average(x, out, radius):
    n = len(x)
    for i in range(n):
        total = 0.0
        count = 0
        for j in range(i - radius, i + radius + 1):
            if j < 0 or j >= n:
                continue
            total += x[j]
            count += 1
        out[i] = total / count


@case(lambda rng, real: (np.where(rng.random((10, 10)) < 0.5, 1, -1).astype(np.int8), 3, 0.4, 17))
def ising(spins, sweeps, beta, seed):
    n = spins.shape[0]
    state = seed
    for _sweep in range(sweeps):
        for i in range(n):
            for j in range(n):
                around = spins[i - 1, j] + spins[(i + 1) % n, j] + spins[i, j - 1] + spins[i, (j + 1) % n]
                energy = 2 * spins[i, j] * around
                state = (state * 1103515245 + 12345) & MASK
                if energy <= 0 or state / 2147483648.0 < math.exp(-beta * energy):
                    spins[i, j] = -spins[i, j]
    return state


@case(lambda rng, real: (whole(rng, 256, 9, 11, 3, type="uint8"), np.zeros((9, 11), np.uint8)))
def grey(image, out):
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            r, g, b = image[i, j]
            out[i, j] = int(0.299 * r + 0.587 * g + 0.114 * b)


@case(lambda rng, real: (whole(rng, 2, 10, 12, type="bool"), np.zeros((10, 12), np.int64)))
def distance_from_the_left(mask, out):
    for i in range(mask.shape[0]):
        last = -1
        for j in range(mask.shape[1]):
            if mask[i, j]:
                last = j
            out[i, j] = j - last if last >= 0 else -1


@case(lambda rng, real: (numbers(rng, real, 9, 10), np.zeros((9, 10), real)))
def integral_image(x, out):
    for i in range(x.shape[0]):
        row = 0.0
        for j in range(x.shape[1]):
            row += x[i, j]
            out[i, j] = row + (out[i - 1, j] if i > 0 else 0.0)


# ---- linear algebra -------------------------------------------------------------------------------------------------


@case(lambda rng, real: (numbers(rng, real, 9, 7), numbers(rng, real, 7, 8), np.empty((9, 8), real)))
def matrix_product(a, b, c):
    n, m = a.shape
    for i in range(n):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(m):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@case(lambda rng, real: (numbers(rng, real, 8, 8) + 8 * np.eye(8).astype(real),))
def lu(a):
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


@case(lambda rng, real: (np.tril(numbers(rng, real, 8, 8)) + 4 * np.eye(8).astype(real), numbers(rng, real, 8)))
def forward_substitution(lower, x):
    for i in range(len(x)):
        total = x[i]
        for j in range(i):
            total -= lower[i, j] * x[j]
        x[i] = total / lower[i, i]


@case(lambda rng, real: (numbers(rng, real, 20) + 4, *(numbers(rng, real, 20) for _ in range(3))))
def thomas(diagonal, upper, lower, x):
    n = diagonal.shape[0]
    for i in range(1, n):
        factor = lower[i] / diagonal[i - 1]
        diagonal[i] -= factor * upper[i - 1]
        x[i] -= factor * x[i - 1]
    x[n - 1] /= diagonal[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = (x[i] - upper[i] * x[i + 1]) / diagonal[i]


@case(lambda rng, real: (np.abs(numbers(rng, real, 12, 12)),))
def floyd_warshall(d):
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])


@case(lambda rng, real: (numbers(rng, real, 6, 6), numbers(rng, real, 6), 20))
def power_iteration(a, v, steps):
    n = v.shape[0]
    w = np.zeros(6)
    length = 0.0
    for _ in range(steps):
        for i in range(n):
            w[i] = 0.0
            for j in range(n):
                w[i] += a[i, j] * v[j]
        length = 0.0
        for i in range(n):
            length += w[i] ** 2
        length = math.sqrt(length)
        for i in range(n):
            v[i] = w[i] / length
    return length


@case(lambda rng, real: (numbers(rng, real, 5, 7), np.empty((7, 5), real)))
def transpose(a, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[i, j]


@case(lambda rng, real: (numbers(rng, real, 6, 6), np.empty((6, 6), real)))
def lower_triangle(a, out):
    out[:, :] = 0.0
    for i in range(len(a)):
        for j in range(i + 1):
            out[i, j] = a[i, j]


@case(lambda rng, real: (numbers(rng, real, 12, 3), np.zeros((12, 12), real)))
def pairwise_distance(points, out):
    for i in range(points.shape[0]):
        for j in range(i + 1, points.shape[0]):
            total = 0.0
            for k in range(points.shape[1]):
                total += (points[i, k] - points[j, k]) ** 2
            out[i, j] = out[j, i] = math.sqrt(total)


@case(lambda rng, real: (numbers(rng, real, 9), numbers(rng, real, 9), np.empty((9, 9), real)))
def outer(x, y, out):
    for i in range(len(x)):
        row = out[i]
        for j in range(len(y)):
            row[j] = x[i] * y[j]


@case(lambda rng, real: (1.7, numbers(rng, real, 50), numbers(rng, real, 50)))
def axpy(a, x, y):
    for i in range(x.shape[0]):
        y[i] = a * x[i] + y[i]


@case(lambda rng, real: (numbers(rng, real, 16), np.empty(16, real), np.empty(16, real)))
def dft(x, re, im):
    n = x.shape[0]
    for k in range(n):
        total_re = 0.0
        total_im = 0.0
        for t in range(n):
            angle = -2.0 * np.pi * k * t / n
            total_re += x[t] * np.cos(angle)
            total_im += x[t] * np.sin(angle)
        re[k] = total_re
        im[k] = total_im


# ---- particles and chance -------------------------------------------------------------------------------------------


@case(lambda rng, real: (numbers(rng, real, 10, 3), np.abs(numbers(rng, real, 10)), np.empty((10, 3), real)))
def n_body(x, mass, force):
    n = x.shape[0]
    for i in range(n):
        fx = fy = fz = 0.0
        for j in range(n):
            if i != j:
                dx = x[j, 0] - x[i, 0]
                dy = x[j, 1] - x[i, 1]
                dz = x[j, 2] - x[i, 2]
                scale = mass[j] / (dx * dx + dy * dy + dz * dz + 0.01) ** 1.5
                fx += scale * dx
                fy += scale * dy
                fz += scale * dz
        force[i, 0], force[i, 1], force[i, 2] = fx, fy, fz


@case(lambda rng, real: (numbers(rng, real, 40, 2), numbers(rng, real, 4, 2), np.zeros(40, np.int32), np.zeros(4)))
def k_means_step(points, centres, labels, counts):
    sums = np.zeros((4, 2))
    for i in range(len(points)):
        best = 0
        nearest = np.inf
        for k in range(len(centres)):
            d = (points[i, 0] - centres[k, 0]) ** 2 + (points[i, 1] - centres[k, 1]) ** 2
            if d < nearest:
                nearest = d
                best = k
        labels[i] = best
        counts[best] += 1.0
        sums[best, 0] += points[i, 0]
        sums[best, 1] += points[i, 1]
    for k in range(4):
        if counts[k] > 0:
            for axis in range(2):
                centres[k, axis] = sums[k, axis] / counts[k]


def uniform(seed, counter):
    x = (seed ^ (counter * 40503)) & MASK
    for _ in range(3):
        x = (x * 1103515245 + 12345) & MASK
        x ^= x >> 13
    return x / 2147483648.0


@case(lambda rng, real: (500, 7))
def monte_carlo_pi(samples, seed):
    inside = 0
    for n in range(samples):
        x = uniform(seed, 2 * n)
        y = uniform(seed, 2 * n + 1)
        if x * x + y * y < 1.0:
            inside += 1
    return 4.0 * inside / samples


@case(lambda rng, real: (np.zeros(64, real), 3))
def random_walks(ends, seed):
    for walker in range(len(ends)):
        place = 0.0
        for step in range(20):
            place += 1.0 if uniform(seed + walker, step) < 0.5 else -1.0
        ends[walker] = place


@case(lambda rng, real: (0.1, 0.0, 0.01, 200))
def pendulum(angle, speed, dt, steps):
    for _ in range(steps):
        speed -= dt * 9.81 * math.sin(angle)
        angle += dt * speed
    return angle, speed


@case(lambda rng, real: (np.zeros((30, 3), real), 0.01))
def lorenz(path, dt):
    x, y, z = 1.0, 1.0, 1.0
    for n in range(path.shape[0]):
        dx = 10.0 * (y - x)
        dy = x * (28.0 - z) - y
        dz = x * y - 8.0 / 3.0 * z
        x, y, z = x + dt * dx, y + dt * dy, z + dt * dz
        path[n, 0] = x
        path[n, 1] = y
        path[n, 2] = z


@case(lambda rng, real: (100.0, 105.0, 0.02, 0.3, 1.0, 30))
def binomial_option(spot, strike, rate, sigma, years, steps):
    values = np.empty(64)
    dt = years / steps
    up = math.exp(sigma * math.sqrt(dt))
    p = (math.exp(rate * dt) - 1 / up) / (up - 1 / up)
    for i in range(steps + 1):
        values[i] = max(0.0, spot * up ** (2 * i - steps) - strike)
    for n in range(steps, 0, -1):
        for i in range(n):
            values[i] = math.exp(-rate * dt) * (p * values[i + 1] + (1 - p) * values[i])
    return values[0]


# ---- searching, sorting, whole numbers ------------------------------------------------------------------------------


@case(lambda rng, real: (np.sort(numbers(rng, real, 60)), numbers(rng, real, 20), np.zeros(20, np.int64)))
def binary_search(keys, wanted, places):
    for n in range(len(wanted)):
        low = 0
        high = len(keys)
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < wanted[n]:
                low = middle + 1
            else:
                high = middle
        places[n] = low


@case(lambda rng, real: (numbers(rng, real, 30),))
def insertion_sort(x):
    for i in range(1, len(x)):
        value = x[i]
        j = i - 1
        while j >= 0 and x[j] > value:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = value


@case(lambda rng, real: (numbers(rng, real, 30), np.zeros(28, real)))
def median_of_three_windows(x, out):
    for i in range(len(out)):
        window = np.empty(3)
        for k in range(3):
            window[k] = x[i + k]
        for a in range(2):
            for b in range(2 - a):
                if window[b] > window[b + 1]:
                    window[b], window[b + 1] = window[b + 1], window[b]
        out[i] = window[1]


@case(lambda rng, real: (whole(rng, 4, 14), whole(rng, 4, 17), np.zeros(18, np.int64)))
def edit_distance(a, b, row):
    n, m = len(a), len(b)
    for j in range(m + 1):
        row[j] = j
    for i in range(1, n + 1):
        before = row[0]
        row[0] = i
        for j in range(1, m + 1):
            kept = row[j]
            change = 0 if a[i - 1] == b[j - 1] else 1
            row[j] = min(row[j] + 1, row[j - 1] + 1, before + change)
            before = kept
    return row[m]


@case(lambda rng, real: (np.ones(200, bool),))
def sieve(prime):
    prime[0] = prime[1] = False
    i = 2
    while i * i < len(prime):
        if prime[i]:
            for j in range(i * i, len(prime), i):
                prime[j] = False
        i += 1
    count = 0
    for k in range(len(prime)):
        count += prime[k]
    return count


@case(lambda rng, real: (np.zeros(40, np.int64),))
def collatz(steps):
    for n in range(1, len(steps)):
        value = n
        while value != 1:
            if value % 2 == 0:
                value //= 2
            else:
                value = 3 * value + 1
            steps[n] += 1


def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@case(lambda rng, real: (whole(rng, 1000, 30), whole(rng, 1000, 30) + 1, np.zeros(30, np.int64)))
def gcds(a, b, out):
    for i in range(len(a)):
        out[i] = gcd(a[i], b[i])


@case(lambda rng, real: (whole(rng, 256, 64, type="uint8"),))
def checksum(data):
    a = 1
    b = 0
    for i in range(len(data)):
        a = (a + int(data[i])) % 65521
        b = (b + a) % 65521
    return (b << 16) | a


@case(lambda rng, real: (whole(rng, 256, 64, type="uint8"),))
def fnv(data):
    h = 2166136261
    for i in range(len(data)):
        h = ((h ^ int(data[i])) * 16777619) & 0xFFFFFFFF
    return h


@case(lambda rng, real: (whole(rng, 2**31, 40), np.zeros(40, np.int32)))
def bits(x, out):
    for i in range(len(x)):
        value = x[i]
        count = 0
        while value:
            value &= value - 1
            count += 1
        out[i] = count


@case(lambda rng, real: (numbers(rng, real, 6), numbers(rng, real, 30), np.empty(30, real)))
def horner(coefficients, x, out):
    for i in range(len(x)):
        total = 0.0
        for k in range(len(coefficients) - 1, -1, -1):
            total = total * x[i] + coefficients[k]
        out[i] = total


@case(lambda rng, real: (whole(rng, 30, 12), whole(rng, 30, 12) + 1, np.zeros(50, np.int64)))
def knapsack(weights, prices, best):
    for item in range(len(weights)):
        for room in range(len(best) - 1, -1, -1):
            if weights[item] <= room:
                best[room] = max(best[room], best[room - weights[item]] + prices[item])
    return best[-1]


def newton(value):
    guess = value if value > 1.0 else 1.0
    for _ in range(60):
        better = 0.5 * (guess + value / guess)
        if abs(better - guess) < 1e-6 * guess:
            return better
        guess = better
    return guess


@case(lambda rng, real: (np.abs(numbers(rng, real, 20)) + np.dtype(real).type(0.5), np.empty(20, real)))
def roots(x, out):
    for i in range(len(x)):
        out[i] = newton(x[i])


@case(lambda rng, real: (numbers(rng, real, 40), np.empty(40, real), 0.3))
def soft_threshold(x, out, limit):
    for i in range(len(x)):
        if x[i] > limit:
            out[i] = x[i] - limit
        elif x[i] < -limit:
            out[i] = x[i] + limit
        else:
            out[i] = 0.0


@case(lambda rng, real: (numbers(rng, real, 6, 10), np.empty((6, 10), real)))
def softmax_rows(x, out):
    for r in range(x.shape[0]):
        top = -math.inf
        for c in range(x.shape[1]):
            top = max(top, x[r, c])
        total = 0.0
        for c in range(x.shape[1]):
            out[r, c] = math.exp(x[r, c] - top)
            total += out[r, c]
        for c in range(x.shape[1]):
            out[r, c] /= total


@case(lambda rng, real: (numbers(rng, real, 40) * 3, np.empty(40, real)))
def wrapped_angles(x, out):
    for i in range(len(x)):
        out[i] = (x[i] + np.pi) % (2 * np.pi) - np.pi


@case(lambda rng, real: (numbers(rng, real, 6, 4), np.empty((6, 4), real), whole(rng, 6, 6)))
def gather_rows(x, out, order):
    for i in range(len(order)):
        out[i] = x[order[i]]
    out[0, 1:3] = 7.0
    out[-1, :] = x[0]


@case(lambda rng, real: (numbers(rng, real, 12, 9)[::2, ::-1], np.zeros(6, real)))
def strided_sums(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i] += x[i, j] * (j + 1)


@case(lambda rng, real: (numbers(rng, real, 60), 10, np.zeros(60, real)))
def exponential_filter(x, span, out):
    alpha = 2.0 / (span + 1)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = alpha * x[i] + (1.0 - alpha) * out[i - 1]


@case(lambda rng, real: (whole(rng, 12, 30, 2), np.arange(12)))
def union_find(edges, parent):
    joined = 0
    for e in range(len(edges)):
        a, b = edges[e]
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        if a != b:
            parent[max(a, b)] = min(a, b)
            joined += 1
    return joined


@case(lambda rng, real: (np.sort(whole(rng, 60, 20)), np.sort(whole(rng, 60, 25)), np.zeros(45, np.int64)))
def merge(a, b, out):
    i = j = 0
    for n in range(len(out)):
        if j >= len(b) or (i < len(a) and a[i] <= b[j]):
            out[n] = a[i]
            i += 1
        else:
            out[n] = b[j]
            j += 1


@case(lambda rng, real: (numbers(rng, real, 8, 2), numbers(rng, real, 20, 2), np.zeros(20, bool)))
def points_in_polygon(corners, points, inside):
    n = len(corners)
    for p in range(len(points)):
        x, y = points[p]
        odd = False
        j = n - 1
        for i in range(n):
            xi, yi = corners[i]
            xj, yj = corners[j]
            if (yi > y) != (yj > y) and x < (xj - xi) * (y - yi) / (yj - yi) + xi:
                odd = not odd
            j = i
        inside[p] = odd
