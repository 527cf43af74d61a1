"""Shapes with unknown sizes: what they know and how they come together, and those of tensors, which learn more."""

import numpy as np
import pytest

import minitensor.compat.v1 as tf

KNOWN, PARTLY, UNKNOWN = tf.TensorShape([2, 3]), tf.TensorShape([None, 3]), tf.TensorShape(None)


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda n: n + 2, 7), (lambda n: 2 + n, 7), (lambda n: n - 2, 3), (lambda n: n * 2, 10), (lambda n: 2 * n, 10),
        (lambda n: n // 2, 2), (lambda n: n + tf.Dimension(1), 6), (lambda n: n * tf.Dimension(0), 0),
    ],
)  # fmt: skip
def test_sizes_are_computed_with(compute, expected):
    found = compute(tf.Dimension(5))
    assert isinstance(found, tf.Dimension)
    assert found == expected
    assert compute(tf.Dimension(None)).value is None


def test_a_size_is_a_number_where_it_is_known():
    size = tf.Dimension(5)
    assert (int(size), range(9)[size], size.value, tf.Dimension(size).value) == (5, 5, 5, 5)
    assert size == tf.Dimension(5)
    assert size != tf.Dimension(4)
    assert size != 4
    assert hash(size) == hash(tf.Dimension(5))
    assert (str(size), repr(size)) == ("5", "Dimension(5)")
    unknown = tf.Dimension(None)
    assert (unknown.value, str(unknown), repr(unknown)) == (None, "?", "Dimension(None)")
    assert (size + None).value is None
    with pytest.raises(TypeError, match="not known before the graph runs"):
        int(unknown)


def test_what_a_shape_knows():
    assert [shape.ndims for shape in (KNOWN, PARTLY, UNKNOWN, tf.TensorShape([]))] == [2, 2, None, 0]
    assert [shape.rank for shape in (KNOWN, PARTLY, UNKNOWN, tf.TensorShape([]))] == [2, 2, None, 0]
    assert [shape.is_fully_defined() for shape in (KNOWN, PARTLY, UNKNOWN, tf.TensorShape([]))] == [
        True, False, False, True,
    ]  # fmt: skip
    assert [shape.num_elements() for shape in (KNOWN, PARTLY, UNKNOWN, tf.TensorShape([]))] == [6, None, None, 1]
    assert [str(shape) for shape in (KNOWN, PARTLY, UNKNOWN, tf.TensorShape([4]))] == [
        "(2, 3)", "(?, 3)", "<unknown>", "(4,)",
    ]  # fmt: skip
    assert [repr(shape) for shape in (PARTLY, UNKNOWN)] == ["TensorShape([None, 3])", "TensorShape(None)"]
    assert KNOWN.as_list() == [2, 3]
    assert PARTLY.as_list() == [None, 3]
    assert [size.value for size in PARTLY] == [None, 3]
    assert [size.value for size in PARTLY.dims] == [None, 3]
    assert UNKNOWN.dims is None
    assert (len(PARTLY), PARTLY[1], PARTLY[0].value, PARTLY[1:]) == (2, 3, None, tf.TensorShape([3]))
    assert UNKNOWN[3].value is None
    assert UNKNOWN[1:] == UNKNOWN


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: UNKNOWN.as_list(), "not defined on an unknown TensorShape"),
        (lambda: iter(UNKNOWN), "Cannot iterate over a shape with unknown rank"),
        (lambda: len(UNKNOWN), "Cannot take the length of shape with unknown rank"),
        (lambda: tf.TensorShape([2, -2]), "Dimension must be >= 0"),
        (lambda: KNOWN.merge_with([2, 4]), r"Shapes \(2, 3\) and \(2, 4\) are not compatible"),
        (lambda: PARTLY.merge_with([3]), r"Shapes \(\?, 3\) and \(3,\) are not compatible"),
    ],
)
def test_what_a_shape_can_not_say_is_an_error(ask, text):
    with pytest.raises(ValueError, match=text):
        ask()


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        (5, [5]), (tf.Dimension(None), [None]), ((2, tf.Dimension(3)), [2, 3]), ([-1, 3], [None, 3]),
        (PARTLY, [None, 3]), (range(3), [0, 1, 2]), (np.array([4, 5]), [4, 5]), (iter((6, 7)), [6, 7]),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_shape_is_made_of(given, sizes):
    assert tf.TensorShape(given).as_list() == sizes


def test_shapes_are_the_same_by_their_sizes():
    assert tf.TensorShape([2, 3]) == KNOWN
    assert KNOWN == (2, 3)
    assert hash(KNOWN) == hash(tf.TensorShape((2, 3)))
    assert len({KNOWN, PARTLY, UNKNOWN, tf.TensorShape([None, 3])}) == 3
    for one, other in ((KNOWN, PARTLY), (KNOWN, UNKNOWN), (KNOWN, [2, 4]), (KNOWN, "name"), (KNOWN, object())):
        assert one != other


@pytest.mark.parametrize(
    ("one", "other", "compatible", "takes"),
    [
        ([2, 3], [2, 3], True, True), ([2, 3], [2, 4], False, False), ([None, 3], [2, 3], True, True),
        ([None, 3], [2, 4], False, False), ([None, None], [3], False, False), (None, [3], True, True),
        ([], [], True, True), ([], [1], False, False), ([0], [0], True, True),
    ],
)  # fmt: skip
def test_which_values_have_a_shape(one, other, compatible, takes):
    assert tf.TensorShape(one).is_compatible_with(other) is compatible
    assert tf.TensorShape(other).is_compatible_with(tf.TensorShape(one)) is compatible
    assert tf.TensorShape(one).takes(tuple(other)) is takes


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (None, None, None), (None, [2, None], [2, None]), ([2, None], None, [2, None]),
        ([2, None], [None, 3], [2, 3]), ([None, 3], [None, 3], [None, 3]), ([2, 3], [2, 3], [2, 3]), ([], [], []),
    ],
)  # fmt: skip
def test_what_two_shapes_say_together(one, other, both):
    assert tf.TensorShape(one).merge_with(other) == tf.TensorShape(both)


@pytest.mark.parametrize("begun", [None, [None, None], [2, None], [2, 3]])
def test_what_is_added_to_the_shape_of_a_tensor_is_known_of_what_is_made_of_it(begun):
    x = tf.placeholder(tf.float32, begun)
    x.set_shape([None, 3])
    merged = x.shape.as_list()
    assert merged == [2 if begun and begun[0] else None, 3]
    assert x.get_shape().as_list() == merged
    assert (x + 1.0).shape.as_list() == merged
    assert tf.reduce_sum(x, 0).shape.as_list() == [3]
    x.set_shape([2, 3])
    assert tf.matmul(x, np.ones((3, 5), np.float32)).shape.as_list() == [2, 5]
    with pytest.raises(ValueError, match="are not compatible"):
        x.set_shape([4, 3])
    assert x.shape.as_list() == [2, 3]
    with tf.Session() as session:
        assert session.run(x * 2.0, {x: [[1, 2, 3], [4, 5, 6]]}).tolist() == [[2, 4, 6], [8, 10, 12]]
        with pytest.raises(ValueError, match="shape"):
            session.run(x * 2.0, {x: [[1, 2, 3]]})
