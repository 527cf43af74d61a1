// Inference of recurrent layers.
#pragma once

#include "dispatch/op.h"

namespace mt {

enum class Recurrent : int64_t { Tanh, Relu, Lstm, Gru };

// Blocks of the hidden size: of the gates, of what the backward pass needs of each step, of the state, and of what goes
// through the hidden state's product where that is not what goes to the gates.
struct RecurrentSizes {
    int64_t gates, kept, states, product;
};
RecurrentSizes recurrent_sizes(Recurrent mode);

// given [T, N, gates H], hidden [N, H], cell (LSTM) [N, H], weight [gates H, H], bias [gates H] or none, sizes [T] or
// none; mode, reverse. Results: output [T, N, H], last [states, N, H], kept [T, N, kept H].
void infer_recurrent(Call& call);
// The gradients of output and last; output, kept, hidden, cell, weight, sizes; mode, reverse. Results: the gradients of
// given, of the states, and of the product, of size 0 where it is that of given.
void infer_recurrent_backward(Call& call);

}  // namespace mt
