"""Programs that train models made of modules, with optimizers."""

import minitensor as mt
import minitensor.nn.functional as F
from benchmarks.programs.case import program
from minitensor import nn, optim


@program(iterations=800, pays=True)
def softmax_regression(iterations):
    """A linear layer on batches of digits' size, the loss read every 100 steps."""
    mt.manual_seed(0)
    x, y = mt.rand(10, 100, 784), mt.randint(0, 10, (10, 100))
    model = nn.Linear(784, 10)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for iteration in range(iterations):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[iteration % 10]), y[iteration % 10])
        loss.backward()
        optimizer.step()
        if iteration % 100 == 0:
            print(iteration, f"{loss.item():.4f}")
    return loss, model.weight.abs().sum()


@program(iterations=220, pays=True)
def small_net_adam(iterations):
    """A net of three layers fits a curve, by Adam."""
    mt.manual_seed(1)
    x = mt.linspace(-2, 2, 64).unsqueeze(1)
    y = (x * 2).sin() * x
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for iteration in range(iterations):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if iteration % 100 == 0:
            print(iteration, f"{loss.item():.5f}")
    return loss


@program(iterations=140)
def policy_gradient(iterations):
    """An agent on a line; an episode is played, then learnt from."""
    mt.manual_seed(2)
    policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = optim.Adam(policy.parameters(), lr=0.02)
    rewards = []
    for iteration in range(iterations):
        place, logs, total = 0.1 * (iteration % 5), [], 0.0
        for step in range(8):
            log_p = policy(mt.tensor([place, step / 8])).log_softmax(dim=0)
            action = int(mt.multinomial(log_p.exp(), 1).item())
            place += 0.2 if action else -0.2
            logs.append(log_p[action])
            total += -abs(place - 1)
            if place > 1.5:
                break
        loss = -mt.stack(logs).sum() * (total + 5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rewards.append(total)
    return sum(rewards), loss


@program(iterations=700)
def printed_loss(iterations):
    """Logistic regression that shows its loss at every step."""
    mt.manual_seed(3)
    x = mt.randn(200, 8)
    y = (x[:, 0] + 0.5 * x[:, 1] > 0).float()
    w, b = mt.zeros(8, requires_grad=True), mt.zeros(1, requires_grad=True)
    optimizer = optim.SGD([w, b], lr=0.5)
    for iteration in range(iterations):
        loss = F.binary_cross_entropy_with_logits(x @ w + b, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {iteration} loss {loss.item():.6f}")
    return w, b


@program(iterations=14, few=2)
def hyperparameter_sweep(iterations):
    """Nets of other widths and rates, a short training each."""
    best = []
    for iteration in range(iterations):
        mt.manual_seed(iteration)
        width = 8 + 4 * iteration
        model = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 3))
        optimizer = optim.SGD(model.parameters(), lr=0.05 + 0.01 * iteration, momentum=0.9)
        x, y = mt.randn(64, 10), mt.randint(0, 3, (64,))
        for _ in range(25):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        best.append(loss.item())
    return best


@program(iterations=28, few=2, pays=True)
def small_convnet(iterations):
    """Two convolutions and a linear layer on small images."""
    mt.manual_seed(4)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 12, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1200, 10),
    )
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    x, y = mt.rand(32, 1, 28, 28), mt.randint(0, 10, (32,))
    for _ in range(iterations):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


@program(iterations=26, few=2, pays=True)
def autoencoder(iterations):
    """Wide layers, gelu and layer norm."""
    mt.manual_seed(5)
    model = nn.Sequential(
        nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 64), nn.GELU(), nn.Linear(64, 256)
    )
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    x = mt.randn(256, 256)
    for _ in range(iterations):
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


@program(iterations=110, few=4)
def early_stopping(iterations):
    """Training with a look at held-back data every four steps, which decides when to lower the rate."""
    mt.manual_seed(6)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.2)
    x, held = mt.randn(96, 16), mt.randn(48, 16)
    y, target = x[:, :1].sin(), held[:, :1].sin()
    best = float("inf")
    for iteration in range(iterations):
        model.train()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if iteration % 4 == 3:
            model.eval()
            with mt.no_grad():
                now = F.mse_loss(model(held), target).item()
            if now > best:
                for group in optimizer.param_groups:
                    group["lr"] *= 0.7
            best = min(best, now)
    return best
