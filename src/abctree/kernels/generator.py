"""Random numbers of compiled simulators: which stream a seed stands for.

The generator is our own because numba's global state would tie a row to the rows before it:

- bits: xoshiro256++ 1.0 of Blackman and Vigna, "Scrambled linear pseudorandom number generators",
  ACM TOMS 47 (2021), started from the seed by SplitMix64 (Steele, Lea and Flood, "Fast splittable
  pseudorandom number generators", OOPSLA 2014), as its authors recommend;
- normals: the ziggurat of Marsaglia and Tsang, "The ziggurat method for generating random
  variables", J. Stat. Software 5(8) (2000), with 256 layers;
- exponentials: minus the logarithm of a uniform.
"""

from __future__ import annotations

import math

import numpy as np

from abctree.kernels.jit import jit
from abctree.types import FloatArray, IntArray, SeedArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# Shift counts are uint64 as well: numba turns uint64 with a signed integer into a float.
_7, _11, _12, _17, _23, _27, _30, _31, _45 = (
    np.uint64(k) for k in (7, 11, 12, 17, 23, 27, 30, 31, 45)
)
_64 = np.uint64(64)
_LAYER_BITS = np.uint64(0xFF)
_TO_UNIT = 2.0**-52

_N_LAYERS = 256
_TAIL_START = 3.6541528853610088  # Marsaglia and Tsang's r for 256 layers


def _ziggurat() -> tuple[FloatArray, FloatArray]:
    """Edges x_0 > x_1 = r > ... > x_256 = 0 of layers of equal area, and the density there."""
    density_at_tail = math.exp(-0.5 * _TAIL_START**2)
    tail = math.sqrt(math.pi / 2) * math.erfc(_TAIL_START / math.sqrt(2))
    area = _TAIL_START * density_at_tail + tail
    edge = np.zeros(_N_LAYERS + 1)
    edge[0] = area / density_at_tail  # the base layer, tail included, as a rectangle
    edge[1] = _TAIL_START
    for i in range(2, _N_LAYERS):
        below = math.exp(-0.5 * edge[i - 1] ** 2)
        edge[i] = math.sqrt(-2.0 * math.log(area / edge[i - 1] + below))
    return edge, np.exp(-0.5 * edge**2)


_EDGE, _DENSITY = _ziggurat()


@jit(inner=True)
def _rotated(bits: np.uint64, k: np.uint64) -> np.uint64:
    return (bits << k) | (bits >> (_64 - k))


@jit
def start_state(state: SeedArray, seed: np.uint64) -> None:
    """Fill the state (4,) of xoshiro256++ with four outputs of SplitMix64."""
    for i in range(4):
        seed += _GOLDEN
        z = seed
        z = (z ^ (z >> _30)) * _MIX_1
        z = (z ^ (z >> _27)) * _MIX_2
        state[i] = z ^ (z >> _31)


@jit
def mix(root: np.uint64, index: IntArray, seeds: SeedArray) -> None:
    """A seed (n,) for each number (n,): two rounds of SplitMix64's finaliser."""
    for i in range(len(index)):
        z = root ^ (_GOLDEN * (np.uint64(index[i]) + np.uint64(1)))
        for _ in range(2):
            z = (z ^ (z >> _30)) * _MIX_1
            z = (z ^ (z >> _27)) * _MIX_2
            z = z ^ (z >> _31)
        seeds[i] = z


@jit(inner=True)
def _bits(state: SeedArray) -> np.uint64:
    """The next 64 bits."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    out: np.uint64 = _rotated(s0 + s3, _23) + s0
    t = s1 << _17
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = _rotated(s3, _45)
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return out


@jit
def uniform(state: SeedArray) -> float:
    """A draw of the open interval (0, 1): the middle of one of 2^52 equal cells."""
    return (float(_bits(state) >> _12) + 0.5) * _TO_UNIT


@jit
def exponential(state: SeedArray) -> float:
    """A standard exponential."""
    return -math.log(uniform(state))


@jit(inner=True)
def _normal_tail(state: SeedArray) -> float:
    """A normal beyond r (Marsaglia 1964)."""
    while True:
        beyond = -math.log(uniform(state)) / _TAIL_START
        if -2.0 * math.log(uniform(state)) >= beyond * beyond:
            return _TAIL_START + beyond


@jit
def normal(state: SeedArray) -> float:
    """A standard normal."""
    while True:
        bits = _bits(state)
        # The low 8 bits choose the layer, the high 52 the place in it: no bit serves both.
        layer = np.int64(bits & _LAYER_BITS)
        u = 2.0 * ((float(bits >> _12) + 0.5) * _TO_UNIT) - 1.0
        x: float = u * _EDGE[layer]
        if abs(x) < _EDGE[layer + 1]:
            return x
        if layer == 0:
            return math.copysign(_normal_tail(state), u)
        low, high = _DENSITY[layer], _DENSITY[layer + 1]
        if low + uniform(state) * (high - low) < math.exp(-0.5 * x * x):
            return x
