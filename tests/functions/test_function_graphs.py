"""The graphs that results of a compiled function have behind them: each call's is its own as long as anybody has it."""

import minitensor as mt


def nodes(loss):
    """All nodes behind a tensor."""
    found, waiting = [], [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.append(node)
            waiting.extend(following for following, _ in node.next_functions)
    return found


def step_of(w):
    """A step that has run its backward pass: nothing is saved behind its loss."""

    def step():
        w.grad = None
        loss = (w * 3).exp().sum()
        loss.backward()
        return loss

    return mt.function(step, jit_compile=True)


def own_nodes(loss):
    return [node for node in nodes(loss) if type(node).__name__ != "AccumulateGrad"]


def test_losses_that_are_kept_have_graphs_of_their_own():
    w = mt.rand(4).requires_grad_()
    step = step_of(w)
    losses = [step() for _ in range(7)]
    assert step.hits == 6
    graphs = [own_nodes(loss) for loss in losses]
    assert [[node.name() for node in graph] for graph in graphs] == [
        ["SumBackward0", "ExpBackward0", "MulBackward0"]
    ] * 7
    everything = [node for graph in graphs for node in graph]
    assert len({id(node) for node in everything}) == len(everything)
    assert len({node._sequence_nr() for node in everything}) == len(everything)
    for graph in graphs:
        numbers = [node._sequence_nr() for node in graph]
        assert numbers == sorted(numbers, reverse=True)


def test_graphs_of_later_calls_are_younger():
    w = mt.rand(4).requires_grad_()
    step = step_of(w)
    last = -1
    for _ in range(8):
        loss = step()
        numbers = sorted(node._sequence_nr() for node in own_nodes(loss))
        assert numbers[0] > last
        last = numbers[-1]
    assert step.hits == 7


def test_what_is_hung_on_a_node_is_of_one_call():
    w = mt.rand(4).requires_grad_()
    step = step_of(w)
    for k in range(8):
        loss = step()
        assert not loss.grad_fn.metadata
        assert not loss.grad_fn.next_functions[0][0].metadata
        if k % 2:
            loss.grad_fn.next_functions[0][0].metadata["call"] = k
        else:
            loss.grad_fn.metadata["call"] = k
            loss.grad_fn.register_hook(lambda *_: None)
    assert step.hits == 7


def test_a_node_that_somebody_holds_is_left_alone():
    w = mt.rand(4).requires_grad_()
    step = step_of(w)
    held = []
    for _ in range(6):
        node = step().grad_fn.next_functions[0][0]
        assert all(node is not other for other in held)
        held.append(node)
        assert [following.name() for following, _ in node.next_functions] == ["MulBackward0"]
    assert len({node._sequence_nr() for node in held}) == 6


def test_graphs_that_keep_no_tensors_run_backward_once_a_call():
    w = mt.arange(4.0).requires_grad_()
    step = mt.function(lambda: (w * 3).sum(), jit_compile=True)
    for k in range(6):
        loss = step()
        hooked = []
        if k % 3 == 1:
            loss.grad_fn.register_hook(lambda *_, hooked=hooked: hooked.append(1))
        loss.backward()
        assert w.grad.tolist() == [3.0 * (k + 1)] * 4
        assert hooked == [1] * (k % 3 == 1)
    loss = step()
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad.tolist() == [24.0] * 4
    assert step.hits == 6


def test_a_leaf_that_begins_anew_is_reached():
    w = mt.arange(4.0).requires_grad_()
    step = mt.function(lambda: (w * 3).sum(), jit_compile=True)
    for k in range(6):
        w.grad = None
        step().backward()
        assert w.grad.tolist() == [3.0] * 4
        if k == 3:
            w.requires_grad_(False).requires_grad_()
            w.data = mt.arange(4.0) + 1
