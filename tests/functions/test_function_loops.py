"""Functions with loops whose calls are short become programs, though their traces repeat themselves."""

import minitensor as mt


def unrolled(turns):
    def run(x, w):
        h = x
        for _ in range(turns):
            h = mt.tanh(h * w + x) * 0.9
        return h

    return run


def calls_until_kept(f, call):
    """How many calls there are until one is replayed; a trial of clusters may come before."""
    for k in range(200):
        call()
        if f.hits:
            return k
    return None


def test_a_loop_of_a_short_function_is_one_program():
    x, w = mt.rand(4, 8), mt.rand(8)
    run = unrolled(60)
    expected = run(x, w)
    f = mt.function(run)

    def call():
        assert f(x, w).tolist() == expected.tolist()

    assert calls_until_kept(f, call) is not None
    assert f.programs == 1


def test_a_step_through_time_is_one_program():
    x, w = mt.rand(4, 8), mt.rand(8).requires_grad_()

    def step():
        w.grad = None
        loss = unrolled(40)(x, w).pow(2).mean()
        loss.backward()
        return loss.detach()

    loss, gradient = step().item(), w.grad.tolist()
    f = mt.function(step)

    def call():
        assert f().item() == loss
        assert w.grad.tolist() == gradient

    assert calls_until_kept(f, call) is not None
    assert f.programs == 1


def test_a_long_loop_is_still_run_in_parts():
    x, w = mt.rand(4, 8), mt.rand(8)
    run = unrolled(900)
    expected = run(x, w)
    f = mt.function(run)
    for _ in range(6):
        assert f(x, w).tolist() == expected.tolist()
    assert (f.programs, f.hits) == (0, 0)


def test_a_call_that_is_longer_than_those_before_is_run_in_parts():
    x, w = mt.rand(4, 8), mt.rand(8)
    f = mt.function(lambda x, w, turns: unrolled(turns)(x, w))
    for turns in (40, 40, 900, 900, 40, 40):
        assert f(x, w, turns).tolist() == unrolled(turns)(x, w).tolist()
