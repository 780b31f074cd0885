"""Handwritten digits seen in part: a trained generator, its data, and the problem of the paper."""

from abctree.problems.handwriting.generator import DigitGenerator, digit_generator
from abctree.problems.handwriting.images import LabelledImages, small_digits
from abctree.problems.handwriting.masked import digits
from abctree.problems.handwriting.mnist import load_mnist

__all__ = [
    "DigitGenerator",
    "LabelledImages",
    "digit_generator",
    "digits",
    "load_mnist",
    "small_digits",
]
