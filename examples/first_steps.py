"""The first script of the README: a line fitted eagerly, the same step compiled, and a function compiled as a whole."""

import minitensor as mt

mt.manual_seed(0)
x = mt.randn(1000, 3)
y = x @ mt.tensor([[1.0], [-2.0], [0.5]]) + 3.0

model = mt.nn.Linear(3, 1)
optimizer = mt.optim.SGD(model.parameters(), lr=0.1)


def step() -> mt.Tensor:
    """Take one step of gradient descent."""
    optimizer.zero_grad()
    loss = mt.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


for _ in range(100):
    loss = step()  # eager: every line runs when it is reached
print(f"loss {loss.item():.1e}, weight {[round(w, 3) for w in model.weight[0].tolist()]}, bias {model.bias.item():.3f}")

with mt.jit_scope():
    loss = step()  # recorded, clustered, compiled

f = mt.function(lambda a, b: (a * b + 1.0).tanh().sum(), jit_compile=True)
print(f(x, x))  # all of it compiled, or an error that says what can't be and why
assert f(x, x).item() == (x * x + 1.0).tanh().sum().item()  # to the last bit
