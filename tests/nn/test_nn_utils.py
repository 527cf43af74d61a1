"""nn.utils, nn.parallel, nn.grad and nn.attention: every test runs with PyTorch too, where it is installed."""

import copy
import importlib
from typing import NamedTuple

import numpy as np
import pytest

import minitensor as mt

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:SwigPy")


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    found = pytest.importorskip(request.param)
    for name in ("nn.utils.rnn", "nn.utils.parametrize", "nn.utils.parametrizations", "nn.utils.prune", "nn.grad"):
        importlib.import_module(f"{request.param}.{name}")
    return found


def array(tensor):
    return tensor.detach().numpy()


def close(tensor, expected, tolerance=1e-5):
    np.testing.assert_allclose(array(tensor), expected, rtol=tolerance, atol=tolerance)


def numbers(lib, *shape):
    return lib.tensor(np.sin(np.arange(np.prod(shape), dtype=np.float32) * 1.3).reshape(shape))


def filled(lib, module):
    with lib.no_grad():
        for p in module.parameters():
            p.copy_(numbers(lib, *p.shape))
    return module


class TestSequences:
    LENGTHS = (2, 4, 1)

    def sequences(self, lib):
        return [numbers(lib, n, 3) + i for i, n in enumerate(self.LENGTHS)]

    @pytest.mark.parametrize("batch_first", [False, True])
    def test_pad(self, lib, batch_first):
        rnn = lib.nn.utils.rnn
        padded = rnn.pad_sequence(self.sequences(lib), batch_first, -1.0)
        assert tuple(padded.shape) == ((3, 4, 3) if batch_first else (4, 3, 3))
        rows = array(padded) if batch_first else array(padded).swapaxes(0, 1)
        for row, sequence in zip(rows, self.sequences(lib), strict=True):
            n = len(sequence)
            assert (row[:n] == array(sequence)).all()
            assert (row[n:] == -1).all()
        back = rnn.unpad_sequence(padded, lib.tensor(self.LENGTHS), batch_first)
        assert all((array(a) == array(b)).all() for a, b in zip(back, self.sequences(lib), strict=True))
        left = rnn.pad_sequence(self.sequences(lib), True, padding_side="left")
        assert (array(left)[0, :2] == 0).all()
        with pytest.raises(RuntimeError, match="iterable"):
            rnn.pad_sequence(3)

    def test_pack(self, lib):
        rnn = lib.nn.utils.rnn
        packed = rnn.pack_sequence(self.sequences(lib), enforce_sorted=False)
        assert packed.batch_sizes.tolist() == [3, 2, 1, 1]
        assert packed.sorted_indices.tolist() == [1, 0, 2]
        assert packed.unsorted_indices.tolist() == [1, 0, 2]
        assert array(packed.data)[:, 0].tolist() == pytest.approx(
            [array(self.sequences(lib)[i])[t, 0] for t, i in ((0, 1), (0, 0), (0, 2), (1, 1), (1, 0), (2, 1), (3, 1))]
        )
        padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=7.0, total_length=5)
        assert lengths.tolist() == list(self.LENGTHS)
        assert tuple(padded.shape) == (3, 5, 3)
        assert (array(padded)[2, 1:] == 7).all()
        assert [tuple(s.shape) for s in rnn.unpack_sequence(packed)] == [(n, 3) for n in self.LENGTHS]
        assert packed.double().data.dtype == lib.float64
        assert packed.to(lib.float32) is packed
        with pytest.raises(RuntimeError, match="sorted in decreasing order"):
            rnn.pack_sequence(self.sequences(lib))
        with pytest.raises(RuntimeError, match="greater than 0"):
            rnn.pack_padded_sequence(numbers(lib, 2, 2, 1), [2, 0])
        with pytest.raises(ValueError, match="total_length"):
            rnn.pad_packed_sequence(packed, total_length=2)

    @pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
    @pytest.mark.parametrize("bidirectional", [False, True])
    def test_packed_is_each_alone(self, lib, kind, bidirectional):
        layer = filled(lib, getattr(lib.nn, kind)(3, 2, num_layers=2, bidirectional=bidirectional))
        sequences = [s.requires_grad_() for s in self.sequences(lib)]
        output, state = layer(lib.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False))
        outputs = lib.nn.utils.rnn.unpack_sequence(output)
        states = state if kind == "LSTM" else (state,)
        sum(o.square().sum() for o in outputs).backward()
        for i, sequence in enumerate(self.sequences(lib)):
            alone = sequence.clone().requires_grad_()
            expected, end = layer(alone)
            close(outputs[i], array(expected))
            for got, wanted in zip(states, end if kind == "LSTM" else (end,), strict=True):
                close(got[:, i], array(wanted))
            expected.square().sum().backward()
            close(sequences[i].grad, array(alone.grad))

    def test_errors_of_layers(self, lib):
        layer = lib.nn.LSTM(3, 2)
        with pytest.raises(RuntimeError, match="Expected 3, got 4"):
            layer(numbers(lib, 2, 1, 4))
        with pytest.raises(RuntimeError, match=r"Expected hidden\[0\] size"):
            layer(numbers(lib, 2, 1, 3), (numbers(lib, 1, 2, 2), numbers(lib, 1, 1, 2)))
        with pytest.raises(ValueError, match="2D or 3D"):
            layer(numbers(lib, 3))
        with pytest.raises(ValueError, match="nonlinearity"):
            lib.nn.RNN(3, 2, nonlinearity="sin")
        with pytest.raises(ValueError, match="proj_size"):
            lib.nn.LSTM(3, 2, proj_size=2)
        with pytest.raises(ValueError, match="hidden_size"):
            lib.nn.GRU(3, 0)


class TestParametrize:
    def symmetric(self, lib):
        class Symmetric(lib.nn.Module):
            def forward(self, x):
                return x.triu() + x.triu(1).transpose(-1, -2)

            def right_inverse(self, x):
                return x.triu()

        return Symmetric()

    def test_registration_and_removal(self, lib):
        parametrize = lib.nn.utils.parametrize
        layer = filled(lib, lib.nn.Linear(3, 3))
        parametrize.register_parametrization(layer, "weight", self.symmetric(lib))
        assert type(layer).__name__ == "ParametrizedLinear"
        assert parametrize.type_before_parametrizations(layer) is lib.nn.Linear
        assert parametrize.is_parametrized(layer, "weight")
        assert not parametrize.is_parametrized(layer, "bias")
        assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
        assert (array(layer.weight) == array(layer.weight).T).all()
        layer(numbers(lib, 2, 3)).sum().backward()
        assert layer.parametrizations.weight.original.grad is not None
        layer.weight = lib.ones(3, 3)
        assert array(layer.parametrizations.weight.original).sum() == 6
        with parametrize.cached():
            assert layer.weight is layer.weight
        assert layer.weight is not layer.weight
        twin = copy.deepcopy(layer)
        assert (array(twin.weight) == 1).all()
        parametrize.remove_parametrizations(layer, "weight")
        assert type(layer) is lib.nn.Linear
        assert isinstance(layer.weight, lib.nn.Parameter)
        assert (array(layer.weight) == 1).all()
        with pytest.raises(ValueError, match="does not have"):
            parametrize.register_parametrization(layer, "nothing", self.symmetric(lib))

    def test_shapes_are_kept(self, lib):
        class Half(lib.nn.Module):
            def forward(self, x):
                return x[:1]

        with pytest.raises(ValueError, match="shape"):
            lib.nn.utils.parametrize.register_parametrization(lib.nn.Linear(2, 2), "weight", Half())

    @pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
    @pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (5, 3)])
    @pytest.mark.parametrize("base", [True, False])
    def test_orthogonal(self, lib, kind, sizes, base):
        layer = lib.nn.Linear(*sizes, bias=False)
        lib.nn.utils.parametrizations.orthogonal(layer, "weight", kind, use_trivialization=base)
        q = array(layer.weight)
        q = q if q.shape[0] <= q.shape[1] else q.T
        np.testing.assert_allclose(q @ q.T, np.eye(len(q)), atol=1e-5)
        if base or kind == "householder":
            wanted = np.linalg.qr(np.random.default_rng(0).standard_normal(sizes))[0].astype(np.float32)
            wanted = wanted.T if wanted.shape != array(layer.weight).shape else wanted
            if wanted.shape == array(layer.weight).shape:
                layer.weight = lib.tensor(wanted.copy())
                close(layer.weight, wanted, 1e-4)

    def test_weight_norm(self, lib):
        expected = filled(lib, lib.nn.Linear(3, 2))
        layer = lib.nn.utils.parametrizations.weight_norm(filled(lib, lib.nn.Linear(3, 2)))
        close(layer.weight, array(expected.weight))
        keys = ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
        assert list(layer.state_dict()) == keys
        old = lib.nn.utils.weight_norm(filled(lib, lib.nn.Linear(3, 2)))
        assert list(old.state_dict()) == ["bias", "weight_g", "weight_v"]
        close(old(numbers(lib, 4, 3)), array(expected(numbers(lib, 4, 3))))
        with lib.no_grad():
            old.weight_g.mul_(2)
        layer.load_state_dict(old.state_dict())
        close(layer.weight, array(expected.weight) * 2)
        lib.nn.utils.remove_weight_norm(old)
        assert list(old.state_dict()) == ["bias", "weight"]

    def test_spectral_norm(self, lib):
        for apply, keys in (
            (lib.nn.utils.spectral_norm, ["bias", "weight_orig", "weight_u", "weight_v"]),
            (
                lib.nn.utils.parametrizations.spectral_norm,
                [
                    "bias",
                    "parametrizations.weight.original",
                    "parametrizations.weight.0._u",
                    "parametrizations.weight.0._v",
                ],
            ),
        ):
            layer = apply(filled(lib, lib.nn.Linear(3, 2)), n_power_iterations=20)
            assert list(layer.state_dict()) == keys
            layer(numbers(lib, 4, 3)).sum().backward()
            assert abs(np.linalg.svd(array(layer.weight))[1][0] - 1) < 1e-3
        hooked = lib.nn.utils.spectral_norm(lib.nn.ConvTranspose1d(2, 3, 2))
        assert hooked.weight_u.shape[0] == 3
        assert hooked.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
        hooked.load_state_dict(hooked.state_dict())
        lib.nn.utils.remove_spectral_norm(hooked)
        assert list(hooked.state_dict()) == ["bias", "weight"]


class TestPrune:
    def test_smallest_and_permanent(self, lib):
        prune = lib.nn.utils.prune
        layer = filled(lib, lib.nn.Linear(4, 2))
        weight = array(layer.weight).copy()
        prune.l1_unstructured(layer, "weight", 3)
        assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
        kept = np.abs(weight) > np.sort(np.abs(weight).ravel())[2]
        assert (array(layer.weight) == weight * kept).all()
        layer(numbers(lib, 1, 4)).sum().backward()
        assert (array(layer.weight_orig.grad)[~kept] == 0).all()
        prune.ln_structured(layer, "weight", 1, n=2, dim=1)
        assert len(layer._forward_pre_hooks) == 1
        assert (array(layer.weight) == 0).all(0).sum() >= 1
        assert prune.is_pruned(layer)
        prune.remove(layer, "weight")
        assert not prune.is_pruned(layer)
        assert list(layer.state_dict()) == ["bias", "weight"]
        with pytest.raises(ValueError, match="has to be pruned"):
            prune.remove(layer, "weight")

    def test_random_and_given(self, lib):
        prune = lib.nn.utils.prune
        layer = filled(lib, lib.nn.Linear(4, 5))
        prune.random_unstructured(layer, "weight", 0.25)
        assert array(layer.weight_mask).sum() == 15
        prune.random_structured(layer, "weight", 2, dim=0)
        assert (array(layer.weight_mask) == 0).all(1).sum() >= 2
        prune.custom_from_mask(layer, "bias", lib.tensor([1.0, 0, 1, 0, 1]))
        assert array(layer.bias)[[1, 3]].tolist() == [0, 0]
        with pytest.raises(ValueError, match="amount"):
            prune.random_unstructured(layer, "bias", 1.5)
        with pytest.raises(TypeError, match="amount"):
            prune.random_unstructured(layer, "bias", "all")

    def test_global(self, lib):
        prune = lib.nn.utils.prune
        a, b = filled(lib, lib.nn.Linear(3, 2)), filled(lib, lib.nn.Linear(3, 2))
        with lib.no_grad():
            b.weight.mul_(10)
        prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=6)
        assert array(a.weight_mask).sum() < array(b.weight_mask).sum()
        assert array(a.weight_mask).sum() + array(b.weight_mask).sum() == 6


class TestTheRest:
    def test_vector(self, lib):
        layer = filled(lib, lib.nn.Linear(3, 2))
        vector = lib.nn.utils.parameters_to_vector(layer.parameters())
        assert array(vector).tolist() == [*array(layer.weight).ravel(), *array(layer.bias)]
        lib.nn.utils.vector_to_parameters(lib.arange(8.0), layer.parameters())
        assert array(layer.bias).tolist() == [6, 7]
        with pytest.raises(TypeError):
            lib.nn.utils.vector_to_parameters([1.0], layer.parameters())

    @pytest.mark.parametrize("transpose", [False, True])
    def test_fusion(self, lib, transpose):
        conv = filled(lib, (lib.nn.ConvTranspose2d if transpose else lib.nn.Conv2d)(2, 3, 2))
        linear = filled(lib, lib.nn.Linear(4, 3, bias=False))
        for layer, bn, x in (
            (conv, lib.nn.BatchNorm2d(3), numbers(lib, 2, 2, 4, 4)),
            (linear, lib.nn.BatchNorm1d(3), numbers(lib, 5, 4)),
        ):
            bn(layer(x))
            layer.eval(), filled(lib, bn).eval()
            if layer is conv:
                fused = lib.nn.utils.fuse_conv_bn_eval(conv, bn, transpose)
            else:
                fused = lib.nn.utils.fuse_linear_bn_eval(linear, bn)
            close(fused(x), array(bn(layer(x))), 1e-4)
            with pytest.raises(AssertionError, match="eval"):
                lib.nn.utils.fuse_conv_bn_eval(layer.train(), bn)

    def test_memory_format_of_convolutions(self, lib):
        for rank, names, last in ((2, "Conv2d ConvTranspose2d", "channels_last"),
                                  (3, "Conv3d ConvTranspose3d", "channels_last_3d")):  # fmt: skip
            layers = [getattr(lib.nn, name)(2, 3, 2) for name in names.split()]
            model = lib.nn.Sequential(*layers, lib.nn.Conv1d(2, 3, 2))
            before = [p.detach().clone() for p in model.parameters()]
            convert = getattr(lib.nn.utils, f"convert_conv{rank}d_weight_memory_format")
            assert convert(model, getattr(lib, last)) is model
            assert [layer.weight.is_contiguous(memory_format=getattr(lib, last)) for layer in layers] == [True] * 2
            assert [layer.weight.stride()[1] for layer in layers] == [1, 1]
            assert model[2].weight.is_contiguous()
            assert all((p == b).all() for p, b in zip(model.parameters(), before, strict=True))

    def test_skip_init(self, lib):
        layer = lib.nn.utils.skip_init(lib.nn.Linear, 3, 2, bias=False)
        assert tuple(layer.weight.shape) == (2, 3)
        assert layer.weight.device.type == "cpu"
        with pytest.raises(RuntimeError, match="device"):
            lib.nn.utils.skip_init(lib.nn.ReLU)

    def test_data_parallel(self, lib):
        layer = filled(lib, lib.nn.Linear(3, 2))
        wrapped = lib.nn.DataParallel(layer)
        assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
        if not lib.cuda.is_available():
            close(wrapped(numbers(lib, 4, 3)), array(layer(numbers(lib, 4, 3))))

    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_gradients_of_convolutions(self, lib, rank):
        convolution = getattr(lib.nn.functional, f"conv{rank}d")
        x = numbers(lib, 2, 4, *[5] * rank).requires_grad_()
        w = numbers(lib, 6, 2, *[3] * rank).requires_grad_()
        options = {"stride": 2, "padding": 1, "groups": 2}
        y = convolution(x, w, **options)
        g = numbers(lib, *y.shape)
        y.backward(g)
        close(getattr(lib.nn.grad, f"conv{rank}d_input")(x.shape, w, g, **options), array(x.grad), 1e-4)
        close(getattr(lib.nn.grad, f"conv{rank}d_weight")(x, w.shape, g, **options), array(w.grad), 1e-4)

    def test_prefixes(self, lib):
        strip = importlib.import_module(f"{lib.__name__}.nn.modules.utils").consume_prefix_in_state_dict_if_present
        state = lib.nn.DataParallel(lib.nn.Sequential(lib.nn.Linear(1, 1))).state_dict()
        strip(state, "module.")
        assert list(state) == ["0.weight", "0.bias"]
        assert set(state._metadata) == {"", "0"}

    def test_init(self, lib):
        init = lib.nn.init
        lib.manual_seed(0)
        w = lib.empty(30, 40)
        for fill, std in (
            (lambda: init.xavier_normal_(w), (2 / 70) ** 0.5),
            (lambda: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), (2 / 30) ** 0.5),
            (lambda: init.kaiming_uniform_(w), (2 / 40) ** 0.5),
            (lambda: init.trunc_normal_(w, std=0.1, a=-1, b=1), 0.1),
        ):
            assert fill() is w
            assert array(w).std() == pytest.approx(std, rel=0.1)
        init.trunc_normal_(w, std=1.0, a=-0.5, b=0.5)
        assert np.abs(array(w)).max() <= 0.5
        init.orthogonal_(w, gain=2)
        np.testing.assert_allclose(array(w) @ array(w).T, 4 * np.eye(30), atol=1e-4)
        init.sparse_(w, 0.3)
        assert ((array(w) == 0).sum(0) == 9).all()
        assert (array(init.eye_(lib.empty(2, 3))) == np.eye(2, 3)).all()
        dirac = array(init.dirac_(lib.empty(4, 2, 3), groups=2))
        assert dirac[:, :, 1].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
        assert dirac.sum() == 4
        with pytest.raises(ValueError, match="dimensions"):
            init.xavier_uniform_(lib.empty(3))
        with pytest.raises(ValueError, match="dimensions"):
            init.dirac_(lib.empty(3))


def test_what_is_missing_says_so():
    for module, name in ((mt.nn, "QuantStub"), (mt.nn.utils, "nothing"), (mt.nn.parallel, "comm")):
        with pytest.raises(AttributeError, match=r"docs/names\.md"):
            getattr(module, name)


class Pair(NamedTuple):
    first: mt.Tensor
    rest: tuple


@pytest.mark.parametrize("target", [-1, "cpu"])
def test_gathered_results_are_on_the_cpu(target):
    """Each part behind those before, in what holds them; devices but the CPU are GPUs."""
    gather = mt.nn.parallel.gather
    x, y = mt.arange(6.0).reshape(2, 3), -mt.ones(2, 3)
    for dim in (0, 1):
        got = gather((x, y), target, dim=dim)
        assert got.device.type == "cpu"
        assert np.array_equal(got.numpy(), np.concatenate((x.numpy(), y.numpy()), dim))
    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        assert gather([mt.tensor(1.0), mt.tensor(2.0)], target).tolist() == [1.0, 2.0]
    parts = [{"a": [one, None], "b": Pair(one[0], (one[1],))} for one in (x, y)]
    found = gather(parts, target)
    assert list(found) == ["a", "b"]
    assert type(found["a"]) is list
    assert found["a"][1] is None
    assert found["a"][0].tolist() == [*x.tolist(), *y.tolist()]
    assert type(found["b"]) is Pair
    assert found["b"].first.tolist() == [*x[0].tolist(), *y[0].tolist()]
    assert found["b"].rest[0].tolist() == [*x[1].tolist(), *y[1].tolist()]
    with pytest.raises(ValueError, match="same number of keys"):
        gather([{"a": x}, {"a": x, "b": y}], target)
