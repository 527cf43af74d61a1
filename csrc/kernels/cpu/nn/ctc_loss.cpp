// The loss of connectionist temporal classification and its gradient: Graves and others, "Connectionist Temporal
// Classification" (2006), with forward and backward variables in logarithms. Examples run in parallel.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "dispatch/infer/nn/ctc.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

template <class T>
constexpr T kNone = -std::numeric_limits<T>::infinity();

// log(exp(a) + exp(b) + exp(c)), without the exponentials that are 1 or 0.
template <class T>
T log_sum(T a, T b, T c) {
    T most = std::max({a, b, c});
    if (most == kNone<T>) return most;
    auto share = [&](T x) { return x == most ? T(1) : x == kNone<T> ? T(0) : std::exp(x - most); };
    T sum = share(a) + share(b) + share(c);
    return sum == T(1) ? most : std::log(sum) + most;
}

template <class F>
void with_type(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

// The operands of a call, from log_probs on, which is number `first`.
template <class T>
struct Examples {
    Packed memory, labels, times, counts;
    const T* logs;
    int64_t steps, batch, classes, blank;
    std::vector<int64_t> first_label;

    Examples(const Call& call, size_t first)
        : memory(call.in(first), DTypeOf<T>::value), labels(call.in(first + 1), DType::I64),
          times(call.in(first + 2), DType::I64), counts(call.in(first + 3), DType::I64), logs(memory.as<T>()),
          steps(call.in(first).sizes[0]), batch(call.in(first).sizes[1]), classes(call.in(first).sizes[2]),
          blank(call.param(0).as_int()) {
        const Tensor& targets = call.in(first + 1);
        bool table = targets.ndim() == 2;
        int64_t at = 0;
        for (int64_t n = 0; n < batch; ++n) {
            if (length(n) < 0 || length(n) > steps)
                fail("Expected input_lengths to have value at " +
                     (length(n) < 0 ? "least 0" : "most " + std::to_string(steps)) + ", but got value " +
                     std::to_string(length(n)) + " (while checking arguments for ctc_loss_allocate_outputs)");
            if (label_count(n) < 0)
                fail("Expected target_lengths to have value at least 0, but got value " +
                     std::to_string(label_count(n)) + " (while checking arguments for ctc_loss_allocate_outputs)");
            if (table && label_count(n) > targets.sizes[1])
                fail("Expected tensor to have size at least " + std::to_string(label_count(n)) +
                     " at dimension 1, but got size " + std::to_string(targets.sizes[1]) +
                     " for argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)");
            first_label.push_back(table ? n * targets.sizes[1] : at);
            at += label_count(n);
        }
        if (!table && at != targets.numel)
            fail("Expected tensor to have size " + std::to_string(at) + " at dimension 0, but got size " +
                 std::to_string(targets.numel) +
                 " for argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)");
        for (int64_t n = 0; n < batch; ++n)
            for (int64_t i = 0; i < label_count(n); ++i) {
                int64_t label = labels.as<int64_t>()[first_label[static_cast<size_t>(n)] + i];
                if (label < 0 || label >= classes)
                    fail("ctc_loss: target " + std::to_string(label) + " is out of bounds for " +
                         std::to_string(classes) + " classes");
            }
    }

    int64_t length(int64_t n) const { return times.as<int64_t>()[n]; }
    int64_t label_count(int64_t n) const { return counts.as<int64_t>()[n]; }
    // States of example n: its labels with blanks before, between and behind them.
    int64_t width(int64_t n) const { return 2 * label_count(n) + 1; }
    std::vector<int64_t> states(int64_t n) const {
        std::vector<int64_t> found(static_cast<size_t>(width(n)), blank);
        for (int64_t i = 0; i < label_count(n); ++i)
            found[static_cast<size_t>(2 * i + 1)] = labels.as<int64_t>()[first_label[static_cast<size_t>(n)] + i];
        return found;
    }
    const T* at(int64_t t, int64_t n) const { return logs + (t * batch + n) * classes; }
};

// alpha[t * width + s]: the logarithm of the probability of all beginnings that are in state s at time t. Returns the
// negative log-likelihood. With `keep` all times are kept, otherwise two rows are enough.
template <class T>
T forward(const Examples<T>& x, int64_t n, const std::vector<int64_t>& state, T* alpha, bool keep) {
    int64_t length = x.length(n), width = x.width(n);
    if (length == 0) return width == 1 ? T(0) : -kNone<T>;
    auto row = [&](int64_t t) { return alpha + (keep ? t : t % 2) * width; };
    std::fill_n(row(0), width, kNone<T>);
    row(0)[0] = x.at(0, n)[x.blank];
    if (width > 1) row(0)[1] = x.at(0, n)[state[1]];
    for (int64_t t = 1; t < length; ++t) {
        const T *before = row(t - 1), *logs = x.at(t, n);
        T* now = row(t);
        for (int64_t s = 0; s < width; ++s) {
            auto i = static_cast<size_t>(s);
            // A label may follow the one before it without a blank between them, unless they are equal.
            bool jump = s > 1 && state[i] != state[i - 2];
            now[s] = log_sum(before[s], s > 0 ? before[s - 1] : kNone<T>, jump ? before[s - 2] : kNone<T>) +
                     logs[state[i]];
        }
    }
    const T* last = row(length - 1);
    return -log_sum(last[width - 1], width > 1 ? last[width - 2] : kNone<T>, kNone<T>);
}

void ctc_loss_kernel(Call& call) {
    with_type(call.in(0).dtype, [&](auto zero) {
        using T = decltype(zero);
        Examples<T> x(call, 0);
        ContiguousOut out(*call.outputs[0], DTypeOf<T>::value);
        parallel_for(x.batch, 1, [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; ++n) {
                std::vector<int64_t> state = x.states(n);
                Scratch alpha(2 * state.size() * sizeof(T));
                out.as<T>()[n] = forward(x, n, state, alpha.as<T>(), false);
            }
        });
        out.store();
    });
}

// The gradient of one example, which is zero beyond its end. It is that with respect to the inputs of a log-softmax
// whose values log_probs are, as PyTorch's: exp(log_probs) less the probability of each class given the targets.
template <class T>
void backward(const Examples<T>& x, int64_t n, T g, bool zero_infinity, T* out) {
    std::vector<int64_t> state = x.states(n);
    int64_t length = x.length(n), width = x.width(n);
    auto to = [&](int64_t t) { return out + (t * x.batch + n) * x.classes; };
    for (int64_t t = length; t < x.steps; ++t) std::fill_n(to(t), x.classes, T(0));
    if (length == 0) return;
    Scratch memory(static_cast<size_t>((length + 2) * width) * sizeof(T));
    T *alpha = memory.as<T>(), *beta = alpha + length * width, *after = beta + width;
    T loss = forward(x, n, state, alpha, true);
    if (loss == -kNone<T>) {  // no alignment has any probability
        T value = zero_infinity ? T(0) : std::numeric_limits<T>::quiet_NaN();
        for (int64_t t = 0; t < length; ++t) std::fill_n(to(t), x.classes, value);
        return;
    }
    for (int64_t t = length - 1; t >= 0; --t) {
        const T* logs = x.at(t, n);
        T* sums = to(t);
        std::fill_n(sums, x.classes, T(0));
        for (int64_t s = width - 1; s >= 0; --s) {
            auto i = static_cast<size_t>(s);
            T log = logs[state[i]];
            if (t == length - 1) {
                beta[s] = s >= width - 2 ? log : kNone<T>;
            } else {
                bool jump = s + 2 < width && state[i] != state[i + 2];
                beta[s] = log_sum(after[s], s + 1 < width ? after[s + 1] : kNone<T>, jump ? after[s + 2] : kNone<T>) +
                          log;
            }
            // The probability of being in this state now, given the targets: at most 1. Both variables hold the log.
            T both = alpha[t * width + s] + beta[s];
            if (both != kNone<T>) sums[state[i]] += std::exp(both - log + loss);
        }
        for (int64_t c = 0; c < x.classes; ++c) sums[c] = (std::exp(logs[c]) - sums[c]) * g;
        std::swap(beta, after);
    }
}

void ctc_loss_backward_kernel(Call& call) {
    with_type(call.in(1).dtype, [&](auto zero) {
        using T = decltype(zero);
        Examples<T> x(call, 1);
        Packed g(call.in(0), DTypeOf<T>::value);
        ContiguousOut out(*call.outputs[0], DTypeOf<T>::value);
        bool zero_infinity = call.param(1).as_bool();
        parallel_for(x.batch, 1, [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; ++n) backward(x, n, g.as<T>()[n], zero_infinity, out.as<T>());
        });
        out.store();
    });
}

const RegisterNative registered{
    {"_ctc_loss", infer_ctc_loss, ctc_loss_kernel},
    {"_ctc_loss_backward", infer_ctc_loss_backward, ctc_loss_backward_kernel},
};

}  // namespace

}  // namespace mt::cpu
