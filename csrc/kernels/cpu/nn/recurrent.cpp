// Recurrent layers: one direction of a layer for a whole sequence. The products with the inputs are there already, for
// all steps at once; each step adds that with the hidden state, and computes gates and state in one loop.
//
// LSTM: i, f, o = sigmoid(a), g = tanh(a) of the four blocks of a = x + h W^T + b; c = f c + i g; h = o tanh(c).
// GRU: r, z = sigmoid(a), n = tanh(x_n + r (h W_n^T + b_n)); h = (h - n) z + n.
// Otherwise: h = tanh(a), or a where it is positive.
//
// With `sizes`, only the first sizes[t] rows have a step t; the state of the others stays, and their output is 0.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "dispatch/infer/nn/recurrent.h"
#include "kernels/cpu/linalg/multiply.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/nn/loops.h"

namespace mt::cpu {

namespace {

template <class F>
void with_type(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

const Tensor* optional_at(const Call& call, size_t i) {
    return i < call.operand_count ? call.operands[i].tensor : nullptr;
}

// The order of the steps, and how many rows each has.
struct Steps {
    int64_t count, rows;
    bool reverse;
    const int64_t* sizes = nullptr;
    Scratch memory;

    Steps(const Call& call, int64_t count, int64_t rows, size_t sizes_at)
        : count(count), rows(rows), reverse(call.param(1).as_bool()) {
        const Tensor* t = optional_at(call, sizes_at);
        if (!t) return;
        pack(memory.reserve(static_cast<size_t>(count + 1) * sizeof(int64_t)), DType::I64, *t);
        sizes = memory.as<int64_t>();
        for (int64_t i = 0; i < count; ++i)
            if (sizes[i] < 0 || sizes[i] > rows || (i && sizes[i] > sizes[i - 1]))
                fail("batch_sizes must be in decreasing order, between 0 and the number of sequences");
    }
    int64_t at(int64_t i) const { return reverse ? count - 1 - i : i; }
    int64_t size(int64_t t) const { return sizes ? sizes[t] : rows; }
    // How many rows had the step before the i-th; the others had their first state.
    int64_t size_before(int64_t i) const { return i == 0 ? 0 : size(at(i - 1)); }
};

template <class T>
void forward(Call& call) {
    auto mode = static_cast<Recurrent>(call.param(0).as_int());
    RecurrentSizes blocks = recurrent_sizes(mode);
    const NnLoops<T>& loops = nn_loops<T>();
    constexpr DType kType = DTypeOf<T>::value;
    Steps steps(call, call.in(0).sizes[0], call.in(0).sizes[1], 5);
    int64_t rows = steps.rows, width = call.in(1).sizes[1], gates = blocks.gates * width, kept = blocks.kept * width;
    Packed given(call.in(0), kType), weight(call.in(3), kType);
    const Tensor* bias_tensor = optional_at(call, 4);
    Packed bias_memory(bias_tensor ? *bias_tensor : call.in(3), kType);
    const T* bias = bias_tensor ? bias_memory.as<T>() : nullptr;
    ContiguousOut output(*call.outputs[0], kType), last(*call.outputs[1], kType), reserve(*call.outputs[2], kType);
    T* state = last.as<T>();
    T* cell = state + rows * width;  // of an LSTM
    pack(state, kType, call.in(1));
    if (mode == Recurrent::Lstm) pack(cell, kType, call.in(2));
    Scratch product(static_cast<size_t>(mode == Recurrent::Gru ? rows * gates + 1 : 1) * sizeof(T));
    for (int64_t i = 0; i < steps.count; ++i) {
        int64_t t = steps.at(i), count = steps.size(t);
        const T* x = given.as<T>() + t * rows * gates;
        T *out = output.as<T>() + t * rows * width, *keep = reserve.as<T>() + t * rows * kept;
        T* sums = mode == Recurrent::Lstm ? keep : mode == Recurrent::Gru ? product.as<T>() : out;
        int64_t stride = mode == Recurrent::Lstm ? kept : gates;
        multiply<T>(count, gates, width, state, width, 1, weight.as<T>(), 1, width, sums, stride);
        parallel_for(count, grain_of(8 * gates), [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; ++n) {
                T *h = out + n * width, *before = state + n * width;
                if (mode == Recurrent::Lstm) {
                    T *row = keep + n * kept, *c = cell + n * width;
                    loops.lstm_step(row, x + n * gates, bias, c, row + gates, h, width);
                    std::copy_n(row + gates, width, c);
                } else if (mode == Recurrent::Gru) {
                    loops.gru_step(keep + n * kept, x + n * gates, sums + n * gates, bias, before, h, width);
                } else {
                    loops.rnn_step(h, x + n * gates, bias, mode == Recurrent::Relu, width);
                }
                std::copy_n(h, width, before);
            }
        });
        std::fill(out + count * width, out + rows * width, T(0));
        std::fill(keep + count * kept, keep + rows * kept, T(0));
    }
    output.store();
    last.store();
    reserve.store();
}

template <class T>
void backward(Call& call) {
    auto mode = static_cast<Recurrent>(call.param(0).as_int());
    RecurrentSizes blocks = recurrent_sizes(mode);
    const NnLoops<T>& loops = nn_loops<T>();
    constexpr DType kType = DTypeOf<T>::value;
    Steps steps(call, call.in(2).sizes[0], call.in(2).sizes[1], 7);
    int64_t rows = steps.rows, width = call.in(4).sizes[1], gates = blocks.gates * width, kept = blocks.kept * width;
    Packed grad(call.in(0), kType), output(call.in(2), kType), reserve(call.in(3), kType), hidden(call.in(4), kType),
        cell(mode == Recurrent::Lstm ? call.in(5) : call.in(4), kType), weight(call.in(6), kType);
    ContiguousOut d_given(*call.outputs[0], kType), d_state(*call.outputs[1], kType),
        d_product(*call.outputs[2], kType);
    T *dh = d_state.as<T>(), *dc = dh + rows * width;
    pack(dh, kType, call.in(1));
    Scratch memory(static_cast<size_t>(mode == Recurrent::Gru ? rows * width + 1 : 1) * sizeof(T));
    for (int64_t i = steps.count - 1; i >= 0; --i) {
        int64_t t = steps.at(i), count = steps.size(t), had = steps.size_before(i);
        int64_t before = i == 0 ? t : steps.at(i - 1);
        const T* g = grad.as<T>() + t * rows * width;
        T *dx = d_given.as<T>() + t * rows * gates, *dp = d_product.as<T>() + t * rows * blocks.product * width;
        parallel_for(count, grain_of(8 * gates), [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; ++n) {
                T* d = dh + n * width;
                for (int64_t j = 0; j < width; ++j) d[j] += g[n * width + j];
                const T* keep = reserve.as<T>() + (t * rows + n) * kept;
                if (mode == Recurrent::Lstm) {
                    const T* c = n < had ? reserve.as<T>() + (before * rows + n) * kept + gates
                                         : cell.as<T>() + n * width;
                    loops.lstm_back(dx + n * gates, keep, keep + gates, c, d, dc + n * width, width);
                } else if (mode == Recurrent::Gru) {
                    const T* h = n < had ? output.as<T>() + (before * rows + n) * width : hidden.as<T>() + n * width;
                    loops.gru_back(dx + n * gates, dp + n * gates, keep, h, d, width);
                } else {
                    const T* h = output.as<T>() + (t * rows + n) * width;
                    loops.rnn_back(dx + n * gates, h, d, mode == Recurrent::Relu, width);
                }
            }
        });
        std::fill(dx + count * gates, dx + rows * gates, T(0));
        if (mode == Recurrent::Gru) {
            std::fill(dp + count * gates, dp + rows * gates, T(0));
            T* through = memory.as<T>();
            multiply<T>(count, width, gates, dp, gates, 1, weight.as<T>(), width, 1, through, width);
            for (int64_t j = 0; j < count * width; ++j) dh[j] += through[j];
        } else {
            multiply<T>(count, width, gates, dx, gates, 1, weight.as<T>(), width, 1, dh, width);
        }
    }
    d_given.store();
    d_state.store();
    d_product.store();
}

void recurrent_kernel(Call& call) {
    with_type(call.outputs[0]->dtype, [&](auto zero) { forward<decltype(zero)>(call); });
}

void recurrent_backward_kernel(Call& call) {
    with_type(call.outputs[0]->dtype, [&](auto zero) { backward<decltype(zero)>(call); });
}

const RegisterNative registered{
    {"_recurrent", infer_recurrent, recurrent_kernel},
    {"_recurrent_backward", infer_recurrent_backward, recurrent_backward_kernel},
};

}  // namespace

}  // namespace mt::cpu
