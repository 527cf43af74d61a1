"""Functions whose arguments and results are nested."""

import pytest

import minitensor as mt
from minitensor.autograd import NestedIOFunction


class Weighted(NestedIOFunction):
    """a * b and {"square": a^2}, of (a, [b, number])."""

    def forward_extended(self, a, rest):
        b, self.factor = rest
        self.save_for_backward(a, [b])
        return a * b * self.factor, {"square": a * a}

    def backward_extended(self, product, squares):
        a, (b,) = self.saved_tensors
        return product * b * self.factor + 2 * a * squares["square"], [product * a * self.factor]


def test_gradients_of_nested_arguments():
    a = mt.tensor([1.0, 2.0], requires_grad=True)
    b = mt.tensor([3.0, 5.0], requires_grad=True)
    product, squares = Weighted()(a, [b, 10])
    assert product.tolist() == [30.0, 100.0]
    assert squares["square"].tolist() == [1.0, 4.0]
    (product.sum() + 0.5 * squares["square"].sum()).backward()
    assert a.grad.tolist() == [30.0 + 1.0, 50.0 + 2.0]
    assert b.grad.tolist() == [10.0, 20.0]
    x = mt.tensor([0.5, -2.0], dtype=mt.float64, requires_grad=True)
    y = mt.tensor([1.5, 0.25], dtype=mt.float64, requires_grad=True)
    assert mt.autograd.gradcheck(lambda x, y: Weighted()(x, [y, 3])[0], (x, y))


class Marking(NestedIOFunction):
    def forward_extended(self, pair):
        result = pair[0] > 0, pair[0] * 2
        self.mark_non_differentiable(result[0])
        self.wanted = self.needs_input_grad
        return result

    def backward_extended(self, positive, doubled):
        assert positive is None or not positive.any()
        return ((doubled * 2, None),)


def test_marks_and_arguments_without_a_gradient():
    x = mt.tensor([1.0, -1.0], requires_grad=True)
    function = Marking()
    positive, doubled = function((x, mt.ones(1)))
    assert function.wanted == (True, False)
    assert not positive.requires_grad
    doubled.backward(mt.tensor([1.0, 3.0]))
    assert x.grad.tolist() == [2.0, 6.0]


class Dirty(NestedIOFunction):
    def forward_extended(self, parts):
        parts["x"].mul_(3)
        self.mark_dirty(parts)
        return parts["x"]

    def backward_extended(self, gradient):
        return {"x": gradient * 3}


def test_an_argument_that_is_changed():
    x = mt.ones(2, requires_grad=True)
    y = x * 1
    z = Dirty()({"x": y})
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_refusals():
    class Short(NestedIOFunction):
        def forward_extended(self, a, b):
            return a + b

        def backward_extended(self, gradient):
            return gradient

    x = mt.ones(2, requires_grad=True)
    function = Short()
    y = function(x, x)
    with pytest.raises(RuntimeError, match="is called once"):
        function(x, x)
    with pytest.raises(RuntimeError, match="gave 1 gradients for 2 tensors"):
        y.sum().backward()
    with pytest.raises(TypeError, match="takes no keywords, got a"):
        Short()(a=x)
    with pytest.raises(NotImplementedError, match="forward_extended"):
        NestedIOFunction()(x)
