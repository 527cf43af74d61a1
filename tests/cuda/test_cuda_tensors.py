"""Tensors on a GPU: making, moving, viewing, writing, showing and saving them."""

import copy
import io
import pickle

import numpy as np
import pytest

import minitensor as mt

pytestmark = pytest.mark.sampled(6)


def same(a, b):
    np.testing.assert_array_equal(a.detach().cpu().numpy(), b.detach().cpu().numpy())


def test_creation_on_a_gpu():
    for made in (
        mt.zeros(2, 3, device="cuda"),
        mt.empty(2, 3, device="cuda:0"),
        mt.full((2, 3), 7.0, device=mt.device("cuda", 0)),
        mt.arange(6, device="cuda"),
        mt.tensor([1.0, 2.0], device="cuda"),
        mt.rand(3, device="cuda"),
        mt.eye(3, device="cuda"),
        mt.ones(2).cuda(),
        mt.ones(2).to("cuda"),
        mt.ones(2).to(0),
        mt.zeros_like(mt.ones(2, device="cuda")),
        mt.ones(2, device="cuda").new_zeros(3),
    ):
        assert str(made.device) == "cuda:0"
        assert made.is_cuda
        assert not made.is_cpu
        assert made.get_device() == 0
    with mt.device("cuda"):
        assert mt.ones(2).is_cuda
    assert mt.tensor(np.arange(3), device="cuda").tolist() == [0, 1, 2]


def test_moving_keeps_values_types_and_gradients():
    x = mt.randn(4, 5, requires_grad=True)
    y = x.cuda()
    assert y.cuda() is y
    assert y.to("cuda:0") is y
    same(x, y)
    (y * y).sum().backward()
    assert x.grad.device.type == "cpu"
    same(x.grad, (2 * x).detach())
    assert y.to("cpu", mt.float64).dtype is mt.float64
    for dtype in (mt.bool, mt.uint8, mt.int64, mt.float16, mt.bfloat16, mt.complex64):
        z = mt.tensor([0, 1, 2]).to(dtype)
        assert z.cuda().cpu().tolist() == z.tolist()
    t = mt.arange(12.0).reshape(3, 4)
    for view in (t.t(), t[:, 1], t[::2, 1:3], t[:, None].expand(3, 5, 4), t[3:]):
        same(view.cuda(), view)
    u = t.cuda()
    for view in (u.t(), u[:, 1], u[::2, 1:3], u[:, None].expand(3, 5, 4), u[3:]):
        assert view.cpu().tolist() == view.tolist()
    big = mt.arange(300_000.0)  # through page-locked chunks
    same(big.cuda(), big)
    same(mt.arange(40000.0).cuda()[::100], mt.arange(40000.0)[::100])


def test_views_share_memory_and_writes_go_through():
    x, y = mt.arange(12.0).reshape(3, 4), mt.arange(12.0).reshape(3, 4).cuda()
    for t in (x, y):
        t[1] = 5.0
        t[:, 2] += 1.0
        t.t()[0].mul_(2.0)
        t.view(-1)[::5].fill_(-1.0)
        t[t > 4] = 0.0
        t[mt.tensor([0, 2]), mt.tensor([1, 3])] = 9.0
        t.add_(1.0).clamp_(max=8.0)
    same(x, y)
    assert y[0].data_ptr() == y.data_ptr()
    assert y[1].data_ptr() == y.data_ptr() + 16
    before = y._version
    y.zero_()
    assert y._version == before + 1
    z = y.detach()
    z[0, 0] = 3.0
    assert y[0, 0].item() == 3.0


def test_copy_between_devices():
    host, gpu = mt.zeros(3), mt.arange(3.0).cuda()
    host.copy_(gpu)
    assert host.tolist() == [0.0, 1.0, 2.0]
    gpu.copy_(mt.tensor([5, 6, 7]))
    assert gpu.tolist() == [5.0, 6.0, 7.0]
    gpu.t().copy_(host)
    same(gpu, host)
    grid = mt.zeros(2, 3, device="cuda")
    grid.copy_(host)
    assert grid.tolist() == [host.tolist()] * 2
    leaf = mt.ones(3, requires_grad=True)
    out = mt.zeros(3, device="cuda")
    out.copy_(leaf)
    out.sum().backward()
    assert leaf.grad.tolist() == [1.0] * 3


def test_two_gpus():
    if mt.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    x = mt.arange(6.0).reshape(2, 3)
    here, there = x.cuda(0), x.cuda(1)
    assert (str(here.device), str(there.device)) == ("cuda:0", "cuda:1")
    same(there * 2, x * 2)
    same(here.to("cuda:1").t().to("cuda:0"), x.t())
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cuda:1"):
        here + there
    with mt.cuda.device(1):
        assert mt.cuda.current_device() == 1
        assert str(mt.zeros(1, device="cuda").device) == "cuda:1"
        assert str(x.cuda().device) == "cuda:1"
    assert mt.cuda.current_device() == 0


def test_operands_on_different_devices():
    x, y = mt.ones(3), mt.ones(3, device="cuda")
    for wrong in (lambda: x + y, lambda: y @ x, lambda: y.add_(x), lambda: x.add_(y), lambda: mt.cat([x, y])):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            wrong()
    assert (y + mt.tensor(2.0)).tolist() == [3.0] * 3
    assert (mt.tensor(2.0) - y).is_cuda
    y.mul_(mt.tensor(4.0))
    assert y.tolist() == [4.0] * 3
    with pytest.raises(RuntimeError, match="device"):
        mt.add(x, x, out=y)
    assert y[mt.tensor([0, 2])].tolist() == [4.0, 4.0]
    y[mt.tensor([True, False, True])] = mt.tensor(1.0)
    assert y.tolist() == [1.0, 4.0, 1.0]


def test_a_device_that_is_not_there():
    n = mt.cuda.device_count()
    for wrong in (lambda: mt.ones(2, device=f"cuda:{n}"), lambda: mt.ones(2).cuda(n), lambda: mt.cuda.set_device(n)):
        with pytest.raises(RuntimeError, match=f"invalid device ordinal: there is no cuda:{n}"):
            wrong()


def test_what_only_the_host_can_do_says_so():
    y = mt.ones(3, device="cuda")
    for wrong in (y.numpy, lambda: np.asarray(y), lambda: memoryview(y)):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
            wrong()
    assert y.numpy(force=True).tolist() == [1.0] * 3
    assert mt.tensor([2.5], device="cuda").item() == 2.5
    assert bool(mt.tensor(1, device="cuda"))
    assert int(mt.tensor(3, device="cuda")) == 3


def test_repr():
    assert repr(mt.tensor([1.0, 2.0], device="cuda")) == "tensor([1., 2.], device='cuda:0')"
    x = mt.ones(1, device="cuda", requires_grad=True)
    assert repr(x) == "tensor([1.], device='cuda:0', requires_grad=True)"
    assert repr(mt.zeros(0, device="cuda")) == "tensor([], device='cuda:0')"


def test_pickles_and_checkpoints(tmp_path):
    x = mt.arange(6.0).reshape(2, 3).cuda()
    again = pickle.loads(pickle.dumps(x))
    assert str(again.device) == "cuda:0"
    same(again, x)
    same(copy.deepcopy(x), x)
    path = tmp_path / "x.pt"
    mt.save({"x": x, "column": x[:, 1]}, path)
    loaded = mt.load(path)
    assert str(loaded["x"].device) == "cuda:0"
    same(loaded["column"], x[:, 1])
    assert loaded["column"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()
    for where, expected in (("cpu", "cpu"), ({"cuda:0": "cpu"}, "cpu"), ("cuda:0", "cuda:0")):
        assert str(mt.load(path, map_location=where)["x"].device) == expected
    stream = io.BytesIO()
    mt.save(x.cpu(), stream)
    stream.seek(0)
    assert mt.load(stream, map_location="cuda").is_cuda


def test_dlpack_stays_on_the_gpu():
    x = mt.arange(6.0).reshape(2, 3).cuda()
    assert x.__dlpack_device__() == (2, 0)
    y = mt.from_dlpack(x)
    assert str(y.device) == "cuda:0"
    assert y.data_ptr() == x.data_ptr()
    y[0, 0] = 7.0
    assert x[0, 0].item() == 7.0
    z = mt.from_dlpack(x[:, 1:])
    same(z + 0, x[:, 1:])  # begins where no kernel can load 16 bytes at a time


def test_page_locked_memory():
    x = mt.arange(1000.0)
    assert not x.is_pinned()
    p = x.pin_memory()
    assert p.is_pinned()
    assert p.pin_memory() is p
    same(p, x)
    y = p.to("cuda", non_blocking=True)
    z = p.cuda(non_blocking=True)
    same(y + z, x + x)
    assert mt.zeros(3, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        y.pin_memory()
    del p
    assert mt.rand(1000).pin_memory().is_pinned()


def test_ops_whose_shape_depends_on_the_data():
    x = mt.tensor([3.0, 1.0, 3.0, 0.0])
    y = x.cuda()
    same(mt.unique(y), mt.unique(x))
    same(y.nonzero(), x.nonzero())
    same(y[y > 1], x[x > 1])
    same(mt.masked_select(y, y > 1), mt.masked_select(x, x > 1))
    same(mt.bincount(mt.tensor([1, 1, 3]).cuda()), mt.bincount(mt.tensor([1, 1, 3])))
    assert mt.unique(y).is_cuda


def test_generators():
    mt.manual_seed(5)
    a = mt.rand(4, device="cuda")
    mt.manual_seed(5)
    same(a, mt.rand(4))
    own = mt.Generator(device="cuda").manual_seed(9)
    b = mt.randn(5, device="cuda", generator=own)
    same(b, mt.randn(5, generator=mt.Generator().manual_seed(9)))
    state = mt.cuda.get_rng_state()
    c = mt.rand(3, device="cuda")
    mt.cuda.set_rng_state(state)
    same(mt.rand(3, device="cuda"), c)
    mt.cuda.manual_seed(7)
    assert mt.cuda.initial_seed() == 7
    d = mt.zeros(4, device="cuda").uniform_()
    mt.manual_seed(7)
    same(mt.zeros(4).uniform_(), d)
    with mt.random.fork_rng():
        first = mt.rand(2, device="cuda")
    same(mt.rand(2, device="cuda"), first)


def test_errors_of_ops_are_those_of_the_cpu():
    x = mt.ones(2, 3, device="cuda")
    with pytest.raises(RuntimeError, match="must match"):
        x + mt.ones(4, device="cuda")
    with pytest.raises(IndexError):
        x[5]
    with pytest.raises((RuntimeError, IndexError), match="index 7 is out of bounds"):
        mt.gather(x, 1, mt.tensor([[7]], device="cuda"))
    with pytest.raises(ZeroDivisionError):
        mt.tensor([1, 2], device="cuda") // mt.tensor([1, 0], device="cuda")
    assert (x * 2).sum().item() == 12.0


def test_modules_and_optimizers():
    results = []
    for device in ("cpu", "cuda"):
        mt.manual_seed(1)
        model = mt.nn.Sequential(mt.nn.Linear(6, 8), mt.nn.Tanh(), mt.nn.Linear(8, 3))
        x, y = mt.randn(5, 6), mt.tensor([0, 2, 1, 1, 0])
        model.cuda() if device == "cuda" else model.cpu()
        assert next(model.parameters()).device.type == device
        optimizer = mt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            loss = mt.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        results.append([loss, *model.parameters()])
        state = optimizer.state_dict()["state"][0]["momentum_buffer"]
        assert state.device.type == device
    for a, b in zip(*results, strict=True):
        same(a, b)


def test_resizing_and_storages():
    x = mt.arange(4.0).cuda()
    x.resize_(2, 3)
    assert x.tolist()[0] == [0.0, 1.0, 2.0]
    assert x.untyped_storage().nbytes() >= 24
    assert str(x.untyped_storage().device) == "cuda:0"
    y = mt.empty(0, device="cuda")
    mt.add(mt.ones(3).cuda(), 1, out=y)
    assert y.tolist() == [2.0] * 3
    assert mt.zeros(0, 3, device="cuda").sum(0).tolist() == [0.0] * 3


def test_samples_are_where_their_parameters_are_and_those_of_the_cpu(cuda):
    weights = mt.tensor([[0.1, 0.5, 0.2], [0.3, 0.3, 0.4]])
    draws = {
        "multinomial": lambda w: mt.multinomial(w, 2),
        "with replacement": lambda w: mt.multinomial(w, 5, replacement=True),
        "poisson": mt.poisson,
        "binomial": lambda w: mt.binomial(mt.full_like(w, 5.0), w),
        "exponential": lambda w: w.clone().exponential_(2.0),
        "cauchy": lambda w: w.clone().cauchy_(),
        "geometric": lambda w: w.clone().geometric_(0.3),
        "random": lambda w: w.clone().random_(0, 100),
    }
    for name, draw in draws.items():
        got = []
        for w in (weights, weights.cuda()):
            mt.manual_seed(5)
            got.append(draw(w))
        assert got[1].device.type == "cuda", name
        np.testing.assert_array_equal(got[1].cpu().numpy(), got[0].numpy(), err_msg=name)


def test_a_number_is_a_gpu():
    assert mt.device(1) == mt.device("cuda", 1)
    assert mt.ones(2, device=0).device == mt.device("cuda", 0)
