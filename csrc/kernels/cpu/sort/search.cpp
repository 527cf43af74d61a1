// searchsorted, and the order of whole slices that unique(dim=...) needs.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "dispatch/infer/shape/order.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/sort/sort.h"

namespace mt::cpu {

namespace {

// The first place in the sorted row whose element is not below the value (with `right`: that is above it). Comparisons
// with NaN count as below.
template <class T>
int64_t search(const T* row, const int64_t* sorter, int64_t n, T value, bool right) {
    // Without branches: where a value goes is not predictable.
    int64_t low = 0;
    while (n > 0) {
        int64_t half = n / 2, middle = low + half;
        T element = row[sorter ? sorter[middle] : middle];
        bool passed = right ? element > value : element >= value;
        low = passed ? low : middle + 1;
        n = passed ? half : n - half - 1;
    }
    return low;
}

void check_sorter(const int64_t* sorter, int64_t count, int64_t n) {
    for (int64_t i = 0; i < count; ++i)
        if (sorter[i] < 0 || sorter[i] >= n) fail("torch.searchsorted(): sorter index out of range");
}

template <class T>
void search_all(Call& call, DType dtype) {
    const Tensor &sorted = call.in(0), &values = call.in(1);
    Packed boundaries(sorted, dtype), wanted(values, dtype);
    const Tensor* order = call.operands[2].tensor;
    Packed sorter(order ? *order : sorted, order ? DType::I64 : sorted.dtype);
    int64_t n = sorted.ndim() ? sorted.sizes.back() : 1;
    const auto* places = order ? sorter.as<int64_t>() : nullptr;
    if (order) check_sorter(places, order->numel, n);
    bool right = call.param(1).as_bool(), shared = sorted.ndim() <= 1;
    int64_t each = values.ndim() ? values.sizes.back() : 1;
    ContiguousOut target(*call.outputs[0], DType::I64);
    auto* out = target.template as<int64_t>();
    const T *from = boundaries.as<T>(), *value = wanted.as<T>();
    parallel_for(values.numel, 1 << 11, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t row = shared ? 0 : i / each * n;
            out[i] = search(from + row, places ? places + row : nullptr, n, value[i], right);
        }
    });
    target.store();
}

void searchsorted_kernel(Call& call) {
    if (call.outputs[0]->numel == 0) return;
    ResultType type;
    type.add_tensor(call.in(0).dtype, call.in(0).ndim() == 0);
    type.add_tensor(call.in(1).dtype, call.in(1).ndim() == 0);
    DType dtype = type.get(call.ambient);
    switch (loop_dtype(dtype)) {
        case DType::F32: return search_all<float>(call, DType::F32);
        case DType::F64: return search_all<double>(call, DType::F64);
        case DType::U64: return search_all<uint64_t>(call, DType::U64);
        default: return search_all<int64_t>(call, DType::I64);
    }
}

// The order of the rows of a matrix, by their first element, then by their second, and so on; stable.
template <class Key>
void order_rows(int64_t* order, DType dtype, const void* data, int64_t rows, int64_t cols) {
    std::vector<Key> keys(static_cast<size_t>(rows * cols));
    load_keys(keys.data(), dtype, data, 1, rows * cols, false);
    std::iota(order, order + rows, 0);
    int64_t compared = 0;
    std::stable_sort(order, order + rows, interruptible(compared, [&](int64_t a, int64_t b) {
                         const Key *x = keys.data() + a * cols, *y = keys.data() + b * cols;
                         return std::lexicographical_compare(x, x + cols, y, y + cols);
                     }));
}

void order_rows_kernel(Call& call) {
    const Tensor& t = call.in(0);
    auto* order = call.outputs[0]->ptr<int64_t>();
    int64_t rows = t.sizes[0], cols = t.sizes[1];
    if (rows == 0) return;
    Packed in(t, t.dtype);
    narrow_keys(t.dtype, 1) ? order_rows<uint32_t>(order, t.dtype, in.data(), rows, cols)
                            : order_rows<uint64_t>(order, t.dtype, in.data(), rows, cols);
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"searchsorted", infer_searchsorted, searchsorted_kernel},
                                    {"_order_rows", infer_order_rows, order_rows_kernel},
                                }};

}  // namespace

}  // namespace mt::cpu
