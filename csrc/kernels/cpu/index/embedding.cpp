// Rows of a table chosen by indices, and the gradient of the table.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "dispatch/infer/nn/embedding.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

void embedding_kernel(Call& call) {
    const Tensor &w = call.in(0), &indices = call.in(1);
    Tensor& out = *call.outputs[0];
    if (indices.numel == 0) return;
    Packed table(w, w.dtype), places(indices, DType::I64);
    ContiguousOut target(out, w.dtype);
    int64_t rows = w.sizes[0], count = indices.numel;
    const auto* index = places.as<int64_t>();
    for (int64_t i = 0; i < count; ++i)
        if (index[i] < 0 || index[i] >= rows) fail_index("index out of range in self");
    size_t bytes = static_cast<size_t>(w.sizes[1]) * itemsize(w.dtype);
    auto* to = static_cast<char*>(target.data());
    const auto* from = static_cast<const char*>(table.data());
    parallel_for(count, grain_of(w.sizes[1] * 2), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            std::memcpy(to + static_cast<size_t>(i) * bytes, from + static_cast<size_t>(index[i]) * bytes, bytes);
    });
    target.store();
}

template <class T>
void embedding_backward(Call& call) {
    const Tensor &g = call.in(0), &indices = call.in(1);
    Packed gradient(g, DTypeOf<T>::value), places(indices, DType::I64);
    ContiguousOut target(*call.outputs[0], DTypeOf<T>::value);
    int64_t rows = call.param(0).as_int(), padding = call.param(1).as_int(), count = indices.numel;
    int64_t width = g.sizes.back();
    const auto* index = places.template as<int64_t>();
    for (int64_t i = 0; i < count; ++i)
        if (index[i] < 0 || index[i] >= rows) fail_index("index out of range in self");
    std::vector<int64_t> counts;
    if (call.param(2).as_bool()) {
        counts.resize(static_cast<size_t>(rows));
        for (int64_t i = 0; i < count; ++i) ++counts[static_cast<size_t>(index[i])];
    }
    // Each part of the table looks through all indices for its own.
    parallel_for(rows, grain_of(width + count * width / std::max<int64_t>(rows, 1)), [&](int64_t begin, int64_t end) {
        T* to = target.template as<T>();
        std::fill_n(to + begin * width, (end - begin) * width, T(0));
        for (int64_t i = 0; i < count; ++i) {
            int64_t row = index[i];
            if (row < begin || row >= end || row == padding) continue;
            const T* from = gradient.template as<T>() + i * width;
            T* sums = to + row * width;
            if (counts.empty())
                for (int64_t j = 0; j < width; ++j) sums[j] += from[j];
            else {
                T factor = T(1) / static_cast<T>(counts[static_cast<size_t>(row)]);
                for (int64_t j = 0; j < width; ++j) sums[j] += from[j] * factor;
            }
        }
    });
    target.store();
}

void embedding_backward_kernel(Call& call) {
    if (call.outputs[0]->numel == 0) return;
    if (call.in(0).dtype == DType::F64) embedding_backward<double>(call);
    else embedding_backward<float>(call);
}

const RegisterNative registered{
    {"embedding", infer_embedding, embedding_kernel, Takes::Stored},
    {"embedding_backward", infer_embedding_backward, embedding_backward_kernel},
};

}  // namespace

}  // namespace mt::cpu
