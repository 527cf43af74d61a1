// full, arange, eye, linspace.
#include "dispatch/infer/shape/creation.h"

#include <algorithm>
#include <cstring>

#include "core/numbers.h"
#include "core/process/parallel.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/loops/strided_loop.h"

namespace mt::cpu {
namespace {

void full(Call& call) { run_fill(*call.outputs[0], call.param(1).as_scalar()); }

// Elements f(i) of type From, converted to the dtype of `out`, which is contiguous.
template <class From, class F> void generate(Tensor& out, F f) {
    constexpr int64_t kBlock = 512;
    ConvertFn convert = get_convert(DTypeOf<From>::value, out.dtype);
    auto* data = static_cast<char*>(out.data());
    auto item = static_cast<int64_t>(itemsize(out.dtype));
    parallel_for(out.numel, kElementwiseGrain, [&](int64_t begin, int64_t end) {
        From buffer[kBlock];
        for (int64_t i = begin; i < end; i += kBlock) {
            int64_t n = end - i < kBlock ? end - i : kBlock;
            // As a sum, since only 32-bit integers convert to float64 in vectors everywhere; exact below 2^53.
            auto first = static_cast<From>(i);
            for (int k = 0; k < n; ++k) buffer[k] = f(first + static_cast<From>(k));
            convert(data + i * item, buffer, n);
        }
    });
}

// first + i * by, wrapping. Vectors add 64-bit integers, but not every CPU's multiply them.
void integers(Tensor& out, uint64_t first, uint64_t by) {
    constexpr int64_t kBlock = 512;
    ConvertFn convert = get_convert(DType::I64, out.dtype);
    auto* data = static_cast<char*>(out.data());
    auto item = static_cast<int64_t>(itemsize(out.dtype));
    uint64_t steps[kBlock];
    auto distinct = static_cast<uint64_t>(std::min(out.numel, kBlock));
    for (uint64_t k = 0; k < distinct; ++k) steps[k] = k * by;
    parallel_for(out.numel, kElementwiseGrain, [&](int64_t begin, int64_t end) {
        uint64_t buffer[kBlock];
        for (int64_t i = begin; i < end; i += kBlock) {
            int64_t n = end - i < kBlock ? end - i : kBlock;
            uint64_t at = first + static_cast<uint64_t>(i) * by;
            auto* to = out.dtype == DType::I64 ? reinterpret_cast<uint64_t*>(data + i * item) : buffer;
            for (int64_t k = 0; k < n; ++k) to[k] = at + steps[k];
            if (to == buffer) convert(data + i * item, buffer, n);
        }
    });
}

void arange(Call& call) {
    Tensor& out = *call.outputs[0];
    const Value &start = call.param(0), &step = call.param(2);
    if (is_integral(out.dtype)) {
        // Fractional bounds count the elements, and are then truncated.
        integers(out, static_cast<uint64_t>(start.as_int()), static_cast<uint64_t>(step.as_int()));
    } else {
        double first = start.as_double(), by = step.as_double();
        generate<double>(out, [=](double i) { return first + i * by; });
    }
}

// As in PyTorch each of its operations is rounded to the dtype.
template <class Round> void narrow_linspace(Tensor& out, float first, float last, Round round) {
    const auto steps = static_cast<float>(out.numel), half = static_cast<float>(std::max<int64_t>(out.numel / 2, 1));
    first = round(first), last = round(last);
    const float by = out.numel > 1 ? round(round(last - first) / round(steps - 1)) : 0;
    generate<float>(out, [=](float i) {
        const float from_first = round(first + round(by * round(i)));
        const float from_last = round(last - round(by * round(steps - 1 - i)));
        return i < half ? from_first : from_last;
    });
}

void linspace(Call& call) {
    Tensor& out = *call.outputs[0];
    double first = call.param(0).as_double(), last = call.param(1).as_double();
    int64_t steps = out.numel;
    if (out.dtype == DType::F16)
        return narrow_linspace(out, static_cast<float>(first), static_cast<float>(last),
                               [](float x) { return float_of_half(half_bits(x)); });
    if (out.dtype == DType::BF16)
        return narrow_linspace(out, static_cast<float>(first), static_cast<float>(last),
                               [](float x) { return float_of_bfloat16(bfloat16_bits(x)); });
    // From both ends, so that the ends are exact.
    double back = static_cast<double>(steps - 1), half = static_cast<double>((steps + 1) / 2);
    double by = steps > 1 ? (last - first) / back : 0.0;
    generate<double>(out, [=](double i) {
        double from_first = first + i * by, from_last = last - (back - i) * by;
        return i < half ? from_first : from_last;
    });
}

void eye(Call& call) {
    Tensor& out = *call.outputs[0];
    run_fill(out, Scalar::of(int64_t(0)));
    Number number;
    const char* one = number.bytes;
    store_scalar(Scalar::of(int64_t(1)), out.dtype, number.bytes);
    int64_t rows = out.sizes[0], columns = out.sizes[1];
    size_t item = itemsize(out.dtype);
    auto* data = static_cast<char*>(out.data());
    for (int64_t i = 0; i < rows && i < columns; ++i)
        std::memcpy(data + static_cast<size_t>(i * columns + i) * item, one, item);
}

const RegisterNative registered{
    {"full", infer_full, full, Takes::Stored},
    {"arange", infer_arange, arange},
    {"eye", infer_eye, eye, Takes::Stored},
    {"linspace", infer_linspace, linspace, Takes::Any},
};

}  // namespace
}  // namespace mt::cpu
