"""Tables of vectors made of a given matrix, here and in PyTorch, where it is installed."""

import pytest

ROWS = [[3.0, 4.0], [1.0, 0.0], [5.0, 12.0]]


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_a_table_has_the_matrix_and_is_trained_if_it_is_asked_for(lib, kind):
    of = getattr(lib.nn, kind).from_pretrained
    matrix = lib.tensor(ROWS)
    table = of(matrix)
    assert (table.num_embeddings, table.embedding_dim) == (3, 2)
    assert table.weight.data_ptr() == matrix.data_ptr()
    assert not table.weight.requires_grad
    assert of(matrix, freeze=False).weight.requires_grad
    assert table(lib.tensor([[2]])).reshape(-1).tolist() == ROWS[2]
    for wrong in (lib.ones(3), lib.ones(2, 3, 2), lib.tensor(1.0)):
        with pytest.raises(AssertionError, match="2-dimensional"):
            of(wrong)


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_the_matrix_has_to_have_the_sizes_that_are_said(lib, kind):
    of = getattr(lib.nn, kind)
    for sizes in [(2, 2), (3, 3), (2, 3)]:
        with pytest.raises(AssertionError, match="does not match num_embeddings and embedding_dim"):
            of(*sizes, _weight=lib.tensor(ROWS))


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_which_vector_is_padding(lib, kind):
    of = getattr(lib.nn, kind)
    assert of(3, 2).padding_idx is None
    for index, kept in ((0, 0), (2, 2), (-1, 2), (-3, 0)):
        table = of(3, 2, padding_idx=index)
        assert table.padding_idx == kept
        assert [bool(row.any()) for row in table.weight] == [k != kept for k in range(3)]
    for index in (3, -4):
        with pytest.raises(AssertionError, match="within num_embeddings"):
            of(3, 2, padding_idx=index)


def test_what_from_pretrained_is_told_is_the_tables(lib):
    matrix = lib.tensor(ROWS)
    options = {"max_norm": 6.5, "norm_type": 1.0, "scale_grad_by_freq": True, "padding_idx": 1, "sparse": True}
    table = lib.nn.Embedding.from_pretrained(matrix, **options)
    assert {name: getattr(table, name) for name in options} == options
    assert repr(table) == (
        "Embedding(3, 2, padding_idx=1, max_norm=6.5, norm_type=1.0, scale_grad_by_freq=True, sparse=True)"
    )
    options |= {"mode": "sum", "include_last_offset": True}
    bags = lib.nn.EmbeddingBag.from_pretrained(matrix, **options)
    assert {name: getattr(bags, name) for name in options} == options
    assert repr(bags) == (
        "EmbeddingBag(3, 2, max_norm=6.5, norm_type=1.0, scale_grad_by_freq=True, mode='sum', padding_idx=1)"
    )
    bags = lib.nn.EmbeddingBag.from_pretrained(lib.tensor(ROWS), mode="sum", include_last_offset=True, padding_idx=1)
    assert bags(lib.tensor([0, 1, 2, 2]), lib.tensor([0, 3, 4])).tolist() == [[8.0, 16.0], [5.0, 12.0]]


def test_only_unusual_options_are_shown(lib):
    assert repr(lib.nn.Embedding(3, 2)) == "Embedding(3, 2)"
    assert repr(lib.nn.EmbeddingBag(3, 2)) == "EmbeddingBag(3, 2, mode='mean')"
