"""From a process' start to the first step of Keras' first epoch, in the processor's seconds, and what an epoch takes.

    KERAS_BACKEND=torch python -m minitensor.as_torch benchmarks/keras_first_step.py mlp
    KERAS_BACKEND=jax python benchmarks/keras_first_step.py cnn

The models are those of `examples/keras_mnist.py`. Give each backend an environment with nothing but Keras and itself:
Keras imports jax, scikit-learn and others where it finds them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

started = time.process_time()
import keras  # noqa: E402

imported = time.process_time()
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import keras_mnist  # noqa: E402

EPOCHS = 7


class Times(keras.callbacks.Callback):
    """When each train step was done in the processor's time, and how long each epoch took by the clock and by it."""

    def __init__(self) -> None:
        """None was."""
        super().__init__()
        self.steps: list[float] = []
        self.epochs: list[tuple[float, float]] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Note one."""
        self.steps.append(time.process_time())

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Start the clocks."""
        self.began = time.perf_counter(), time.process_time()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Stop the clocks, after the validation."""
        self.epochs.append((time.perf_counter() - self.began[0], time.process_time() - self.began[1]))


def main() -> None:
    """Train, and print a line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", choices=("mlp", "cnn"))
    parser.add_argument("--eager", action="store_true", help="jit_compile=False")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    images, digits = keras_mnist.read_digits(keras_mnist.DIGITS)
    model = keras_mnist.mlp() if args.model == "mlp" else keras_mnist.cnn()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"], jit_compile=not args.eager)
    times = Times()
    model.fit(
        images[:1500],
        digits[:1500],
        epochs=1 + EPOCHS,
        callbacks=[times],
        batch_size=32,
        validation_split=0.1,
        verbose=0,
    )
    clock, processor = (statistics.median(each) for each in zip(*times.epochs[1:], strict=True))
    print(
        f"{keras.backend.backend()} {args.model}: first step {times.steps[0]:.2f} s, of which {started:.2f} before and "
        f"{imported - started:.2f} in Keras' import; an epoch {clock:.3f} s ({processor:.3f} s of the processor)"
    )


if __name__ == "__main__":
    main()
