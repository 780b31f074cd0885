"""Handwritten digits seen in part: a trained generator, its data, and the problem of the paper."""

from examples.digits.generator import DigitGenerator, digit_generator
from examples.digits.images import LabelledImages, small_digits
from examples.digits.masked import digits
from examples.digits.mnist import load_mnist

__all__ = [
    "DigitGenerator",
    "LabelledImages",
    "digit_generator",
    "digits",
    "load_mnist",
    "small_digits",
]
