// flip, roll and constant_pad_nd: strided copies of parts of the input.
#include <cstring>

#include "dispatch/infer/shape/movement.h"
#include "dispatch/memory/memory_order.h"
#include "dispatch/op.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

char* element(const Tensor& t, int64_t offset) {
    return static_cast<char*>(t.data()) + offset * static_cast<int64_t>(itemsize(t.dtype));
}

void flip_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (t.numel == 0) return;
    Dims strides = t.strides;
    int64_t start = 0;
    for (int64_t given : call.param(0).ints) {
        if (!t.ndim()) break;
        auto d = static_cast<size_t>(normalize_dim(given, t.ndim()));
        start += (t.sizes[d] - 1) * t.strides[d];
        strides[d] = -t.strides[d];
    }
    strided_copy(out.data(), out.strides, element(t, start), strides, t.sizes, itemsize(t.dtype));
}

struct Roll {
    const Tensor& t;
    Tensor& out;
    Dims shift;  // for each dimension, in [0, size)

    // Each rolled dimension is two parts that change places.
    void copy(size_t d, int64_t from, int64_t to, Dims& sizes) const {
        while (d < t.ndim() && shift[d] == 0) ++d;
        if (d == t.ndim()) {
            strided_copy(element(out, to), out.strides, element(t, from), t.strides, sizes, itemsize(t.dtype));
            return;
        }
        int64_t n = t.sizes[d], s = shift[d];
        sizes[d] = n - s;
        copy(d + 1, from, to + s * out.strides[d], sizes);
        sizes[d] = s;
        copy(d + 1, from + (n - s) * t.strides[d], to, sizes);
        sizes[d] = n;
    }
};

void roll_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (t.numel == 0) return;
    const Dims &shifts = call.param(0).ints, &dims = call.param(1).ints;
    if (dims.empty()) {
        // All elements as one line.
        Packed packed(t, t.dtype);
        ContiguousOut target(out, t.dtype);
        int64_t s = shifts[0] % t.numel;
        size_t head = static_cast<size_t>(s < 0 ? s + t.numel : s) * itemsize(t.dtype),
               bytes = static_cast<size_t>(t.numel) * itemsize(t.dtype);
        std::memcpy(target.as<char>() + head, packed.as<char>(), bytes - head);
        std::memcpy(target.as<char>(), packed.as<char>() + (bytes - head), head);
        target.store();
        return;
    }
    Dims sizes = t.sizes;
    Roll roll{t, out, Dims(t.ndim(), 0)};
    for (size_t i = 0; i < dims.size(); ++i) {
        auto d = static_cast<size_t>(normalize_dim(dims[i], t.ndim()));
        int64_t s = (roll.shift[d] + shifts[i] % t.sizes[d]) % t.sizes[d];
        roll.shift[d] = s < 0 ? s + t.sizes[d] : s;
    }
    roll.copy(0, 0, 0, sizes);
}

void pad_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    const Dims& pad = call.param(0).ints;
    bool grows = false;
    for (int64_t n : pad) grows |= n > 0;
    if (grows) run_fill(out, call.param(1).as_scalar());
    Dims sizes = t.sizes;
    int64_t from = 0, to = 0;
    for (size_t i = 0; i < pad.size() / 2; ++i) {
        size_t d = t.ndim() - 1 - i;
        int64_t low = pad[2 * i], high = pad[2 * i + 1];
        if (low < 0) from -= low * t.strides[d];
        else to += low * out.strides[d];
        sizes[d] += (low < 0 ? low : 0) + (high < 0 ? high : 0);
        if (sizes[d] <= 0) return;
    }
    strided_copy(element(out, to), out.strides, element(t, from), t.strides, sizes, itemsize(t.dtype));
}

template <bool Lower>
void triangle_indices(Call& call) {
    Tensor& out = *call.outputs[0];
    int64_t rows = call.param(0).as_int(), cols = call.param(1).as_int(), offset = call.param(2).as_int();
    int64_t count = out.sizes[1], found = 0;
    auto write = [&](auto zero) {
        using T = decltype(zero);
        auto* row_of = out.ptr<T>();
        T* col_of = row_of + count;
        for (int64_t r = 0; r < rows && found < count; ++r) {
            int64_t border = wrapping_add(r, offset);  // the diagonal's column
            int64_t first = Lower ? 0 : (border > 0 ? border : 0),
                    last = Lower ? (border < cols ? border + 1 : cols) : cols;
            for (int64_t c = first; c < last; ++c) {
                row_of[found] = static_cast<T>(r);
                col_of[found++] = static_cast<T>(c);
            }
        }
    };
    if (out.dtype == DType::I32) write(int32_t{});
    else write(int64_t{});
}

const RegisterOrder ordered{Order::Kept, {"flip"}};
const RegisterNative registered{Takes::Any,
                                {
                                    {"flip", infer_flip, flip_kernel, Takes::Stored},
                                    {"roll", infer_roll, roll_kernel, Takes::Stored},
                                    {"constant_pad_nd", infer_pad, pad_kernel, Takes::Stored},
                                    {"tril_indices", infer_triangle_indices<true>, triangle_indices<true>},
                                    {"triu_indices", infer_triangle_indices<false>, triangle_indices<false>},
                                }};

}  // namespace

}  // namespace mt::cpu
