"""Gradients of sparse tensors, and sparse gradients of dense ones."""

import copy

import numpy as np
import pytest
from sparse_cases import COMPRESSED, as_layout, coo, random

import minitensor as mt

LAYOUTS = (mt.sparse_coo, *COMPRESSED)
gradcheck = mt.sparse.as_sparse_gradcheck(mt.autograd.gradcheck)

B = random(6, 4, seed=1, part=1)
PROGRAMS = {
    "mm": lambda s: mt.sparse.mm(s, B),
    "plain mm": lambda s: s @ B,
    "from the left": lambda s: B.t() @ s.t(),
    "mv": lambda s: mt.mv(s, B[:, 0]),
    "addmm": lambda s: mt.sparse.addmm(mt.ones(4, 4).double(), s, B),
    "to_dense": lambda s: s.to_dense() ** 2,
    "square": lambda s: mt.sparse.mm(s, s.t()),
    "numbers": lambda s: (s * 2 - s / 3).to_dense() ** 2,
    "dense factor": lambda s: s * random(4, 6, seed=5, part=1),
    "sparse factor": lambda s: s * s,
    "transpose": lambda s: s.t().to_dense() ** 2,
    "to coo": lambda s: s.to_sparse_coo().coalesce() * 2,
    "unary": lambda s: mt.sin(s) + s.tanh(),
    "dense sum": lambda s: (mt.ones(4, 6).double() + s) ** 2,
    "total": lambda s: s.sum() ** 2,
}
OF_COO = {
    "coalesce": lambda s: s.coalesce().values() ** 2,
    "sum": lambda s: mt.sparse.sum(s, 0).to_dense() ** 2,
    "softmax": lambda s: mt.sparse.softmax(s, 1),
    "log_softmax": lambda s: mt.sparse.log_softmax(s, 0),
    "cat": lambda s: mt.cat([s, s * s], 1),
    "index_select": lambda s: s.index_select(0, mt.tensor([1, 1, 0])),
    "select": lambda s: s[1],
    "narrow": lambda s: s.narrow_copy(1, 1, 3),
    "hspmm": lambda s: mt.hspmm(s, B),
    "sparse_mask": lambda s: s.sparse_mask(mt.eye(4, 6).double().to_sparse()),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_finite_differences(name, layout):
    if name == "square" and layout in (mt.sparse_bsr, mt.sparse_bsc):
        return  # as for other layouts, through sparse_coo
    s = as_layout(random(4, 6), layout).requires_grad_()
    assert gradcheck(PROGRAMS[name], (s,), masked=True)
    if name not in ("sparse factor", "unary"):
        assert gradcheck(PROGRAMS[name], (s,))


@pytest.mark.parametrize("name", OF_COO)
def test_of_coo_against_finite_differences(name):
    s = random(4, 6).to_sparse().requires_grad_()
    assert gradcheck(OF_COO[name], (s,), masked=True)
    twice = mt.cat([s.detach(), s.detach()], 0).index_select(0, mt.tensor([0, 4, 1, 2])).requires_grad_()
    assert gradcheck(OF_COO[name], (twice,), masked=True)


@pytest.mark.parametrize("name", [*PROGRAMS, *OF_COO])
def test_what_is_there_twice_has_one_gradient(name):
    program = (PROGRAMS | OF_COO)[name]
    whole = random(4, 6).to_sparse()
    indices = mt.cat([whole.indices(), whole.indices()[:, :3], whole.indices()[:, :1]], 1)
    values = mt.cat([whole.values(), mt.tensor([0.5, -2.0, 0.25, 3.0]).double()])
    grads = []
    for once in (False, True):
        s = mt.sparse_coo_tensor(indices, values, (4, 6))
        s = (s.coalesce() if once else s).detach().requires_grad_()
        out = program(s)
        total = (out.to_dense() if out.layout is not mt.strided else out).pow(2).sum()
        (g,) = mt.autograd.grad(total, s, retain_graph=True)
        total.backward()
        assert mt.equal(g.to_dense(), s.grad.to_dense())
        grads.append(g.to_dense())
    assert mt.allclose(*grads, rtol=1e-12)


def test_of_both_factors_and_of_components():
    s = random(4, 6).to_sparse_csr()
    values, dense = s.values().clone().requires_grad_(), B.clone().requires_grad_()

    def program(values, dense):
        t = mt.sparse_csr_tensor(s.crow_indices(), s.col_indices(), values, s.shape)
        return mt.sparse.mm(t, dense)

    assert mt.autograd.gradcheck(program, (values, dense))
    assert mt.autograd.gradgradcheck(program, (values, dense))
    a, b = random(4, 3, seed=3, part=1).requires_grad_(), random(3, 6, seed=4, part=1).requires_grad_()
    assert mt.autograd.gradcheck(lambda a, b: mt.sparse.sampled_addmm(s, a, b).values(), (a, b))
    assert mt.autograd.gradcheck(lambda d: d.to_sparse().coalesce().values(), (random(3, 3, part=1).requires_grad_(),))
    assert mt.autograd.gradcheck(lambda d: d.sparse_mask(s).to_dense(), (random(4, 6, part=1).requires_grad_(),))


def test_layouts_of_gradients():
    b = mt.rand(3, 2)
    for program, layout in (
        (lambda s: mt.sparse.mm(s, b).sum(), mt.sparse_coo),
        (lambda s: mt.mm(s, b).sum(), mt.strided),
        (lambda s: (s @ b).sum(), mt.strided),
        (lambda s: mt.sparse.sum(s), mt.sparse_coo),
        (lambda s: s.sum(), mt.strided),
        (lambda s: s.to_dense().sum(), mt.sparse_coo),
        (lambda s: s.to_dense(masked_grad=False).sum(), mt.sparse_coo),
        (lambda s: s.coalesce().values().sum(), mt.sparse_coo),
    ):
        s = coo(requires_grad=True)
        assert s.is_leaf
        assert s.grad is None
        program(s).backward()
        assert s.grad.layout is layout
        assert s.grad.shape == s.shape
        assert s.grad.dtype is s.dtype
    assert s.grad.to_dense().tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
    unmasked = coo(requires_grad=True)
    unmasked.to_dense(masked_grad=False).sum().backward()
    assert unmasked.grad.to_dense().tolist() == mt.ones(2, 3).tolist()


def test_gradients_are_added_up():
    s = coo(requires_grad=True)
    b = mt.rand(3, 2)
    mt.sparse.mm(s, b).sum().backward()
    first, kept = s.grad.to_dense(), s.grad
    mt.sparse.mm(s, b).sum().backward()
    assert s.grad is kept
    assert s.grad.to_dense().tolist() == (2 * first).tolist()
    s.grad.zero_()
    assert s.grad.to_dense().count_nonzero() == 0
    s.grad = None
    (mt.sparse.mm(s, b).sum() + s.sum()).backward()  # sparse and dense ones
    assert s.grad.layout is mt.strided
    optimizer = mt.optim.SGD([s.detach().requires_grad_()], 0.1)
    optimizer.zero_grad(set_to_none=False)


def test_hooks_and_history():
    s = coo(requires_grad=True)
    seen = []
    twice = s * 2
    twice.register_hook(lambda g: seen.append(g.layout))
    s.register_hook(lambda g: g * 10)
    twice.retain_grad()
    mt.sparse.sum(twice).backward()
    assert seen == [mt.sparse_coo]
    assert s.grad._values().tolist() == [20.0] * 3  # one for each place
    assert twice.grad.layout is mt.sparse_coo
    assert not twice.is_leaf
    assert twice.grad_fn is not None
    (g,) = mt.autograd.grad(mt.sparse.sum(s * s.detach()), s)
    assert g.layout is mt.sparse_coo
    assert not s.detach().requires_grad
    with mt.no_grad():
        assert not (s * 2).requires_grad
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        s.mul_(2)
    t = s * 1
    t.mul_(3)
    (g,) = mt.autograd.grad(mt.sparse.sum(t), s)
    assert g._values().tolist() == [30.0] * 3  # by the hook of s, too


def test_embedding():
    indices = mt.tensor([[0, 1, 2], [1, 2, 3]])
    weights = [mt.rand(5, 4).requires_grad_() for _ in range(1)]
    weights.append(weights[0].detach().clone().requires_grad_())
    factor = mt.rand(2, 3, 4)
    for weight, sparse in zip(weights, (False, True), strict=True):
        made = mt.nn.functional.embedding(indices, weight, padding_idx=2, sparse=sparse)
        (made * factor).sum().backward()
    dense, sparse = (w.grad for w in weights)
    assert sparse.layout is mt.sparse_coo
    assert (sparse.sparse_dim(), sparse.dense_dim(), sparse._nnz()) == (1, 1, 4)
    assert sparse.to_dense().tolist() == dense.tolist()
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        mt.nn.functional.embedding(indices, weights[1], scale_grad_by_freq=True, sparse=True)
    for mode in ("sum", "mean"):
        for weight, flag in zip(weights, (False, True), strict=True):
            weight.grad = None
            mt.nn.functional.embedding_bag(indices, weight, mode=mode, sparse=flag)[0].sum().backward()
        assert weights[1].grad.layout is mt.sparse_coo
        np.testing.assert_allclose(weights[1].grad.to_dense().numpy(), weights[0].grad.numpy(), rtol=1e-6)
    x = mt.rand(3, 4).requires_grad_()
    mt.gather(x, 1, mt.tensor([[0, 0], [1, 2], [3, 3]]), sparse_grad=True).sum().backward()
    assert x.grad.layout is mt.sparse_coo
    assert x.grad.to_dense().tolist() == [[2, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 2]]


def train(lib, make, steps=4):
    table = lib.arange(20.0).reshape(5, 4) / 10
    embedding = lib.nn.Embedding(5, 4, sparse=True, padding_idx=2)
    embedding.weight.data.copy_(table)
    bag = lib.nn.EmbeddingBag(5, 4, sparse=True, mode="mean")
    bag.weight.data.copy_(table)
    optimizer = make(lib.optim, [*embedding.parameters(), *bag.parameters()])
    for step in range(steps):
        optimizer.zero_grad(set_to_none=step != 2)
        indices = lib.tensor([[0, 1, 2], [1, step, 3]])
        loss = (embedding(indices) ** 2).sum() + (bag(indices) * lib.arange(4.0)).sum() + embedding(indices[0]).sum()
        loss.backward()
        optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state)
    return [p.detach().numpy() for p in optimizer.param_groups[0]["params"]]


OPTIMIZERS = {
    "SGD": lambda o, p: o.SGD(p, 0.1),
    "momentum": lambda o, p: o.SGD(p, 0.1, momentum=0.9, dampening=0.2),
    "nesterov": lambda o, p: o.SGD(p, 0.1, momentum=0.9, nesterov=True, maximize=True),
    "Adagrad": lambda o, p: o.Adagrad(p, 0.1, lr_decay=0.1, initial_accumulator_value=0.1),
    "SparseAdam": lambda o, p: o.SparseAdam(p, 0.1),
    "maximizing SparseAdam": lambda o, p: o.SparseAdam(p, 0.1, maximize=True, betas=(0.8, 0.9)),
}


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_pytorchs(name):
    torch = pytest.importorskip("torch")

    for ours, theirs in zip(train(mt, OPTIMIZERS[name]), train(torch, OPTIMIZERS[name]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_sgd_by_sparse_gradients_is_that_by_dense_ones():
    table = mt.rand(5, 4)
    found = []
    for sparse in (False, True):
        embedding = mt.nn.Embedding.from_pretrained(table.clone(), freeze=False, sparse=sparse)
        optimizer = mt.optim.SGD(embedding.parameters(), 0.5)
        for step in range(3):
            optimizer.zero_grad()
            (embedding(mt.tensor([0, 2, step + 1])) ** 2).sum().backward()
            optimizer.step()
        found.append(embedding.weight.detach().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["Adam", "AdamW", "Adamax", "RMSprop", "Rprop", "Adadelta", "ASGD", "NAdam", "RAdam", "Adafactor"]
)
def test_other_optimizers_refuse_sparse_gradients(name):
    embedding = mt.nn.Embedding(3, 2, sparse=True)
    optimizer = getattr(mt.optim, name)(embedding.parameters())
    embedding(mt.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        optimizer.step()


def test_a_graph_network_learns():
    mt.manual_seed(0)
    places = mt.rand(30, 30) < 0.1
    adjacency = (places | places.t() | (mt.eye(30) > 0)).float()
    normal = (adjacency / adjacency.sum(1, keepdim=True)).to_sparse()
    features, labels = mt.rand(30, 8), mt.arange(30) % 3
    first, second = mt.nn.Linear(8, 16), mt.nn.Linear(16, 3)
    optimizer = mt.optim.Adam([*first.parameters(), *second.parameters()], 0.05)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        hidden = mt.relu(mt.spmm(normal, first(features)))
        loss = mt.nn.functional.cross_entropy(mt.spmm(normal, second(hidden)), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_transforms():
    s = random(4, 6).to_sparse()
    values, dense = s.values().clone(), B.clone()

    def loss(values):
        return (mt.sparse.mm(mt.sparse_coo_tensor(s.indices(), values, s.shape), dense) ** 3).sum()

    def dense_loss(values):
        places = tuple(s.indices())
        return ((mt.zeros(4, 6).double().index_put(places, values) @ dense) ** 3).sum()

    for transform in (mt.func.grad, mt.func.hessian, lambda f: mt.func.jacfwd(mt.func.grad(f)), mt.func.jacrev):
        mt.testing.assert_close(transform(loss)(values), transform(dense_loss)(values))
    tangent = mt.ones_like(values)
    mt.testing.assert_close(mt.func.jvp(loss, (values,), (tangent,)), mt.func.jvp(dense_loss, (values,), (tangent,)))
    several = mt.stack([values, 2 * values])
    mt.testing.assert_close(mt.vmap(mt.func.grad(loss))(several), mt.stack([*map(mt.func.grad(dense_loss), several)]))


def _differentiate_to_nan(s):
    with pytest.raises(RuntimeError, match="returned nan values"):
        mt.sparse.sum((s * 0).sqrt() * 0).backward()


def test_modes_of_autograd():
    b = mt.rand(3, 2)
    wanted = None
    for context in (
        mt.enable_grad, lambda: mt.autograd.set_detect_anomaly(True),
        lambda: mt.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x), mt.autograd.graph.save_on_cpu,
    ):  # fmt: skip
        with context():
            s = coo(requires_grad=True)
            (mt.sparse.mm(s * 2, b).sum() + (s @ b).sum()).backward()
        wanted = s.grad.to_dense() if wanted is None else wanted
        assert s.grad.to_dense().tolist() == wanted.tolist()
    s = coo(requires_grad=True)
    with mt.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="Error detected"):
        _differentiate_to_nan(s)
    with mt.inference_mode():
        made = coo()
        assert (made * 2).is_inference()
    assert mt.sparse.mm(made, b).shape == (2, 2)


def test_gradients_own_their_memory():
    embedding = mt.nn.Embedding(4, 2, sparse=True)
    made = embedding(mt.tensor([1, 2]))
    seed = mt.ones(2, 2)
    made.backward(seed)
    embedding.weight.grad._values().mul_(3)
    assert seed.tolist() == mt.ones(2, 2).tolist()
    embedding.weight.grad = None
    scaler = mt.amp.GradScaler("cpu")
    optimizer = mt.optim.SGD(embedding.parameters(), 0.5)
    before = embedding.weight.detach().clone()
    scaler.scale(embedding(mt.tensor([1, 2])).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    mt.testing.assert_close(embedding.weight.detach(), before - mt.tensor([[0.0], [0.5], [0.5], [0.0]]))
