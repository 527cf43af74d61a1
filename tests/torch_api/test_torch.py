"""Against PyTorch, where it is installed: whole programs, with their gradients."""

import numpy as np
import pytest
from fuzz.generator import Generator
from fuzz.programs import text

torch = pytest.importorskip("torch")

from fuzz.against_torch import compare  # noqa: E402  (after it's known that there is PyTorch)


@pytest.mark.at_once(reason="an index out of bounds is known when the values are")
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore")
def test_programs(seed):
    generator = Generator(seed, 30)
    generator.special = False
    program = generator.make()
    with np.errstate(all="ignore"):
        found, _ = compare(program, torch)
    assert found is None, f"{found}\n\n{text(program)}"
