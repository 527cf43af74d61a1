"""The cost of a call: ops on one element, or on a few."""

from benchmarks.op_case import op

STATEMENTS = {
    "add": "x + y",
    "add_number": "x + 1.0",
    "add_": "x.add_(y)",
    "mul_out": "t.mul(x, y, out=z)",
    "exp": "t.exp(x)",
    "gelu": "F.gelu(x)",
    "pow": "x ** 2",
    "where": "t.where(c, x, y)",
    "clamp": "t.clamp(x, 0, 1)",
    "less": "x < y",
    "to": "x.to(t.float64)",
    "sum": "x.sum()",
    "mean": "m.mean(1)",
    "amax": "m.amax(0)",
    "argmax": "m.argmax(1)",
    "var": "m.var()",
    "softmax": "F.softmax(m, 1)",
    "log_softmax": "F.log_softmax(m, 1)",
    "cross_entropy": "F.cross_entropy(m, i)",
    "mse_loss": "F.mse_loss(x, y)",
    "layer_norm": "F.layer_norm(m, (2,))",
    "linear": "F.linear(m, m)",
    "matmul": "m @ m",
    "relu": "F.relu(x)",
    "dropout": "F.dropout(x)",
    "view": "m.view(4)",
    "transpose": "m.T",
    "permute": "m.permute(1, 0)",
    "unsqueeze": "x.unsqueeze(0)",
    "expand": "x.expand(3)",
    "slice": "m[0:1]",
    "select": "m[0]",
    "index": "m[i]",
    "set": "m.__setitem__(0, 1.0)",
    "cat": "t.cat((x, y))",
    "stack": "t.stack((x, y))",
    "split": "m.split(1)",
    "zeros": "t.zeros(2)",
    "tensor": "t.tensor([1.0, 2.0])",
    "arange": "t.arange(3)",
    "clone": "x.clone()",
    "detach": "x.detach()",
    "item": "x.item()",
    "all": "c.all()",
    "sort": "x.sort()",
    "cumsum": "x.cumsum(0)",
    "gather": "m.gather(1, j)",
    "conv2d": "F.conv2d(p, w)",
    "max_pool2d": "F.max_pool2d(p, 2)",
    "embedding": "F.embedding(i, m)",
    "grad": "t.autograd.grad(G * G, G)",
    "grad_mlp": "t.autograd.grad((t.tanh(G * x) + y).sum(), G)",
}


def _data(d):
    return {
        "x": d.normal(1),
        "y": d.normal(1),
        "z": d.normal(1),
        "c": d.bools(1),
        "m": d.normal(2, 2),
        "i": d.integers(2, 2),
        "j": d.integers(2, 2, 1),
        "p": d.normal(1, 1, 4, 4),
        "w": d.normal(1, 1, 3, 3),
        "G": d.normal(1).requires_grad_(),
    }


for _name, _statement in STATEMENTS.items():
    op("one", _name, _statement, _data)
