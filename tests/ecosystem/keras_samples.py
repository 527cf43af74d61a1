"""Keras 3 on its backend for PyTorch: layers, training, callbacks, saving."""

import keras
import numpy as np
import pytest
from keras import layers, ops

MODELS = {
    "dense": ((8,), lambda: [layers.Dense(16, "relu"), layers.BatchNormalization(), layers.Dropout(0.1)]),
    "convolution": ((8, 8, 2), lambda: [layers.Conv2D(4, 3, padding="same"), layers.MaxPooling2D(), layers.Flatten()]),
    "separable": ((8, 8, 2), lambda: [layers.SeparableConv2D(4, 3), layers.GlobalAveragePooling2D()]),
    "transposed": ((4, 4, 2), lambda: [layers.Conv2DTranspose(3, 3, 2), layers.GlobalMaxPooling2D()]),
    "lstm": ((5, 3), lambda: [layers.LSTM(6, return_sequences=True), layers.LSTM(4)]),
    "gru": ((5, 3), lambda: [layers.Bidirectional(layers.GRU(4))]),
    "normalized": ((6,), lambda: [layers.Dense(8, "gelu"), layers.LayerNormalization(), layers.GaussianNoise(0.1)]),
    "attention": ((5, 8), lambda: [layers.Lambda(lambda x: layers.Attention()([x, x])), layers.Flatten()]),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_training(name, optimizer):
    keras.utils.set_random_seed(0)
    shape, made = MODELS[name]
    model = keras.Sequential([layers.Input(shape), *made(), layers.Dense(3, "softmax")])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    generator = np.random.default_rng(0)
    x = generator.normal(size=(48, *shape)).astype("float32")
    y = (x.reshape(48, -1)[:, 0] > 0).astype("int64")
    history = model.fit(x, y, epochs=20, batch_size=16, verbose=0, validation_split=0.25).history
    assert history["loss"][-1] < history["loss"][0]
    assert model.predict(x, verbose=0).sum(1) == pytest.approx(np.ones(48), rel=1e-5)


def test_saving(tmp_path):
    model = keras.Sequential([layers.Input((5,)), layers.Embedding(10, 4), layers.LSTM(6), layers.Dense(1)])
    model.compile("rmsprop", "mse")
    x = np.arange(20).reshape(4, 5) % 10
    callback = keras.callbacks.ReduceLROnPlateau()
    model.fit(x, np.zeros((4, 1)), epochs=2, verbose=0, callbacks=[callback])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


def test_functional():
    entry = keras.Input((4,))
    left, right = layers.Dense(3)(entry), layers.Dense(3, "tanh")(entry)
    model = keras.Model(entry, layers.Concatenate()([left, layers.Add()([left, right])]))
    assert model(np.ones((2, 4), "float32")).shape == (2, 6)
    assert model.count_params() == 30


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: ops.softmax(ops.zeros((1, 4))), [[0.25] * 4]),
        (lambda: ops.einsum("ij,jk->ik", ops.ones((2, 3)), ops.ones((3, 1))), [[3.0], [3.0]]),
        (lambda: ops.top_k(np.array([1.0, 4.0, 3.0]), 2)[0], [4.0, 3.0]),
        (lambda: ops.segment_sum(np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1])), [3.0, 3.0]),
        (lambda: ops.scan(lambda c, x: (c + x, c + x), np.float32(0), np.arange(4, dtype="float32"))[1], [0, 1, 3, 6]),
        (lambda: ops.vectorized_map(lambda x: x * 2, ops.arange(3.0)), [0.0, 2.0, 4.0]),
        (lambda: ops.linalg.solve(np.eye(2) * 2, np.ones((2, 1))), [[0.5], [0.5]]),
        (lambda: ops.image.resize(np.ones((1, 2, 2, 1)), (1, 1)), [[[[1.0]]]]),
    ],
)
def test_ops(found, wanted):
    assert np.allclose(ops.convert_to_numpy(found()), wanted)
