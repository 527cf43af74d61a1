"""From the start of a process to the first step of Keras' first epoch, and what an epoch takes: processor's seconds.

    KERAS_BACKEND=torch python -m minitensor.as_torch benchmarks/keras_first_step.py mlp
    KERAS_BACKEND=jax python benchmarks/keras_first_step.py cnn

The models are those of `examples/keras_mnist.py`. Give each backend an environment with nothing but Keras and itself:
Keras imports jax, scikit-learn and others where it finds them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

started = time.process_time()
import keras  # noqa: E402

imported = time.process_time()
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import keras_mnist  # noqa: E402

EPOCHS = 3


class Steps(keras.callbacks.Callback):
    """When each train step was done."""

    def __init__(self) -> None:
        """None was."""
        super().__init__()
        self.done: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Note one."""
        self.done.append(time.process_time())


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
    steps = Steps()
    named = {"batch_size": 32, "validation_split": 0.1, "verbose": 0}
    model.fit(images[:1500], digits[:1500], epochs=1, callbacks=[steps], **named)
    before = time.process_time()
    model.fit(images[:1500], digits[:1500], epochs=EPOCHS, **named)
    print(
        f"{keras.backend.backend()} {args.model}: first step {steps.done[0]:.2f} s, of which {started:.2f} before and "
        f"{imported - started:.2f} in Keras' import; an epoch {(time.process_time() - before) / EPOCHS:.2f} s"
    )


if __name__ == "__main__":
    main()
