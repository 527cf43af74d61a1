"""What a TransformerEncoder gives for padding, beside PyTorch's."""

import numpy as np
import pytest

import minitensor as mt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

AT_END = [[False, False, False, True], [False, True, True, True], [False] * 4]
BETWEEN = [[False, True, False, True], [False, False, True, True], [False] * 4]


def encoder(lib, layers, batch_first=True, **options):
    layer = lib.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=batch_first)
    return lib.nn.TransformerEncoder(layer, layers, **options)


def filled(package, model, parameters):
    """With the same numbers in both libraries."""
    model.load_state_dict({name: package.tensor(array) for name, array in parameters.items()})
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("as_numbers", [False, True])
@pytest.mark.parametrize("padding", [AT_END, BETWEEN], ids=["at_end", "between"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("layers", "options"),
    [(1, {}), (2, {}), (1, {"mask_check": False}), (2, {"enable_nested_tensor": False}), (1, {"batch_first": False})],
    ids=str,
)
def test_padding(layers, options, training, padding, as_numbers):
    if padding is BETWEEN and options.get("mask_check") is False:
        pytest.skip("mask_check=False says that padding is at the end")
    rng = np.random.default_rng(0)
    shapes = {name: tuple(p.shape) for name, p in encoder(mt, layers, **options).named_parameters()}
    parameters = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    x = rng.normal(size=(3, 4, 8)).astype(np.float32)
    x = x if options.get("batch_first", True) else x.swapaxes(0, 1).copy()
    found = []
    for lib in (mt, torch):
        model = filled(lib, encoder(lib, layers, **options), parameters).train(training)
        mask = lib.tensor(padding)
        mask = lib.zeros(3, 4).masked_fill(mask, float("-inf")) if as_numbers else mask
        with lib.no_grad():
            found.append(model(lib.tensor(x), src_key_padding_mask=mask).numpy())
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)
