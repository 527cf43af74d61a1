"""The examples, as a newcomer runs them but for how long they train."""

import contextlib
import importlib
import io
import sys
from pathlib import Path

from benchmarks.programs.case import program

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def printed_by(name, *arguments):
    """Return what an example prints. Its progress is on standard error."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        example = importlib.import_module(name)
    finally:
        sys.path.remove(str(EXAMPLES))
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        example.main([str(argument) for argument in arguments])
    return text.getvalue()


@program(iterations=1000, few=10, pays=True)
def softmax_regression(iterations):
    """Read digits by softmax regression, in steps."""
    return printed_by("mnist_softmax", "--steps", iterations)


@program(iterations=20, few=1, pays=True)
def convolutional_network(iterations):
    """Read digits by a convolutional network, in epochs; a single one is of few images."""
    return printed_by("convnet", "--epochs", iterations, "--images", 1500 if iterations > 1 else 100)


@program(iterations=6, few=1, pays=True)
def language_model(iterations):
    """Learn to write from a book, in epochs; a single one is of few steps."""
    return printed_by("char_lm", "--epochs", iterations, "--steps", 100 if iterations > 1 else 3)
