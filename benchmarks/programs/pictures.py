"""Programs over images and signals."""

import minitensor as mt
import minitensor.nn.functional as F
from benchmarks.programs.case import program


@program(iterations=250, pays=True)
def game_of_life(iterations):
    """Conway's game on a torus, counted every fifty generations."""
    mt.manual_seed(0)
    cells = mt.rand(64, 64) < 0.3
    counts = []
    for iteration in range(iterations):
        c = cells.int()
        n = sum(c.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        cells = (n == 3) | (cells & (n == 2))
        if iteration % 50 == 0:
            counts.append(cells.sum().item())
    return counts, cells.sum()


@program(iterations=36, few=2, pays=True)
def mandelbrot(iterations):
    """How long points of the plane stay near zero."""
    x, y = mt.linspace(-2, 1, 360), mt.linspace(-1.2, 1.2, 240).unsqueeze(1)
    zx, zy, steps = mt.zeros(240, 360), mt.zeros(240, 360), mt.zeros(240, 360)
    for _ in range(iterations):
        zx, zy = (zx * zx - zy * zy + x).clamp(-10, 10), (2 * zx * zy + y).clamp(-10, 10)
        steps = steps + (zx * zx + zy * zy < 4)
    return steps.sum(), steps.max()


@program(iterations=110)
def fft_filter(iterations):
    """Remove high frequencies of signals of several lengths."""
    mt.manual_seed(1)
    power = mt.zeros(())
    for iteration in range(iterations):
        n = 2048 << iteration % 3
        spectrum = mt.fft.rfft(mt.randn(n))
        keep = (mt.arange(n // 2 + 1) < 100 + iteration).float()
        power += mt.fft.irfft(spectrum * keep, n).square().mean()
    return power


@program(iterations=32, few=2)
def filtered_images(iterations):
    """Blur images, find edges, and stretch the contrast."""
    mt.manual_seed(2)
    image = mt.rand(1, 1, 160, 160)
    blur = mt.ones(1, 1, 5, 5) / 25
    sobel = mt.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]).view(1, 1, 3, 3)
    edges = []
    for iteration in range(iterations):
        smooth = F.conv2d(image, blur, padding=2)
        gx, gy = F.conv2d(smooth, sobel, padding=1), F.conv2d(smooth, sobel.transpose(2, 3), padding=1)
        strength = (gx * gx + gy * gy).sqrt()
        low, high = strength.min(), strength.max()
        strength = (strength - low) / (high - low)
        edges.append((strength > 0.3 + 0.01 * iteration).float().mean().item())
        image = (0.9 * image + 0.1 * strength).clamp(0, 1)
    return edges


@program(iterations=130)
def augmented_pictures(iterations):
    """Crop, flip and normalise pictures at random."""
    import random

    mt.manual_seed(3)
    generator = random.Random(3)
    pictures = mt.rand(20, 3, 40, 40)
    total = mt.zeros(3)
    for _ in range(iterations):
        chosen = []
        for _ in range(6):
            i, j = generator.randrange(9), generator.randrange(9)
            p = pictures[generator.randrange(20), :, i : i + 32, j : j + 32]
            chosen.append(p.flip(2) if generator.random() < 0.5 else p)
        batch = mt.stack(chosen)
        mean = batch.mean(dim=(0, 2, 3), keepdim=True)
        total += ((batch - mean) / batch.std()).abs().mean(dim=(0, 2, 3))
    return total


@program(iterations=40, few=2, pays=True)
def style_of_pixels(iterations):
    """Change an image's pixels by gradients until it is smooth and near to a target."""
    mt.manual_seed(4)
    target = mt.rand(96, 96)
    image = mt.zeros(96, 96, requires_grad=True)
    for _ in range(2 * iterations):
        across, down = image[:, 1:] - image[:, :-1], image[1:] - image[:-1]
        loss = (
            (image - target).square().sum()
            + (across.square() + 1e-3).sqrt().sum()
            + (down.square() + 1e-3).sqrt().sum()
        )
        (g,) = mt.autograd.grad(loss, image)
        with mt.no_grad():
            image -= 0.02 * g
    return loss
