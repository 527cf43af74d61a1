"""Handwritten digits by Keras: ``compile``, ``fit``, ``evaluate``, ``save`` and ``load_model``, on minitensor.

Keras 3 runs here on its backend for PyTorch, and finds minitensor where it imports torch:

    pip install keras
    KERAS_BACKEND=torch python -m minitensor.as_torch examples/keras_mnist.py

With ``jit_compile=True`` a train step, from the batch to the metrics, is one program. The digits are the 8 x 8 ones in
``examples/data``. The script has nothing of minitensor in it: it runs on Keras' other backends too.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import callbacks, layers

DIGITS = Path(__file__).parent / "data" / "digits.csv.gz"
HELD_BACK = 297


def read_digits(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read a line an image, its 64 pixels from 0 to 16 and the digit: images (N, 8, 8, 1) from 0 to 1, digits (N,)."""
    table = np.loadtxt(path, delimiter=",", dtype=np.int64)
    return (table[:, :-1].reshape(-1, 8, 8, 1) / 16).astype(np.float32), table[:, -1]


def mlp() -> keras.Model:
    """Three dense layers: images (N, 8, 8, 1) to scores (N, 10)."""
    return keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def cnn() -> keras.Model:
    """Two convolutions with normalized batches and pools, and a dense layer: images (N, 8, 8, 1) to scores (N, 10)."""
    return keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(10),
        ]
    )


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=("mlp", "cnn"), default="cnn", help="what to train (%(default)s)")
    parser.add_argument("--epochs", type=int, default=12, metavar="N", help="passes over the images (%(default)s)")
    parser.add_argument("--images", type=int, default=1500, metavar="N", help="how many to train on (%(default)s)")
    parser.add_argument("--batch_size", type=int, default=32, metavar="N", help="images a step (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and dropout (%(default)s)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the model here, as a .keras file")
    parser.add_argument("--eager", action="store_true", help="compile nothing: jit_compile=False")
    parser.add_argument("--verbose", default="auto", choices=("auto", "0", "1", "2"), help="Keras' (%(default)s)")
    args = parser.parse_args(argv)
    if min(args.epochs, args.batch_size) < 1 or not 10 <= args.images <= 1500:
        parser.error("--epochs and --batch_size must be at least 1, --images from 10 to 1500")
    if args.save and args.save.suffix != ".keras":
        parser.error(f"--save takes a name that ends in .keras, not {args.save}")
    return args


def main(argv: list[str] | None = None) -> int:
    """Run the example; return the exit status."""
    args = parse_args(argv)
    verbose = args.verbose if args.verbose == "auto" else int(args.verbose)
    keras.utils.set_random_seed(args.seed)
    images, digits = read_digits(DIGITS)
    held_back = images[-HELD_BACK:], digits[-HELD_BACK:]

    model = mlp() if args.model == "mlp" else cnn()
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=not args.eager,
    )
    history = model.fit(
        images[: args.images],
        digits[: args.images],
        batch_size=args.batch_size,
        epochs=args.epochs,
        validation_split=0.1,
        callbacks=[
            callbacks.ReduceLROnPlateau(patience=2, factor=0.5),
            callbacks.EarlyStopping(patience=5, restore_best_weights=True),
        ],
        verbose=verbose,
    ).history
    loss, accuracy = model.evaluate(*held_back, batch_size=HELD_BACK, verbose=verbose)
    if args.save:
        model.save(args.save)
        loaded = keras.models.load_model(args.save)
        same = np.array_equal(loaded.predict(held_back[0], verbose=0), model.predict(held_back[0], verbose=0))
        print(f"the model that was read from {args.save} gives the same scores: {same}")
    print(f"loss after {len(history['loss'])} epochs: {history['loss'][-1]!r}")
    print(f"loss on {HELD_BACK} held-back images: {loss:.4f}")
    print(f"accuracy on {HELD_BACK} held-back images: {accuracy:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
