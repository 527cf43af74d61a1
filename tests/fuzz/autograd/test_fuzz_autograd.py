"""Random programs about the edges of autograd: as in PyTorch, where it is installed, and recorded as eager."""

import pytest

from fuzz.autograd import programs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_programs(seed):
    for one in range(seed, seed + 20):
        found = programs.check(one, torch, 14)
        assert found is None, f"seed {one}\n{found[0].text()}\n# {found[1]}"


@pytest.mark.at_once(reason="compares recorded runs with eager ones itself")
@pytest.mark.parametrize("seed", range(20000, 20060, 20))
def test_recorded_programs(seed):
    for one in range(seed, seed + 20):
        found = programs.check_recorded(one, torch, 14)
        assert found is None, f"seed {one}\n{found[0].text()}\n# {found[1]}"
