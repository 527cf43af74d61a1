// Products with matrices in compressed rows. Sums are in the order of a row's elements, whatever the threads do.
#include <algorithm>
#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/infer/sparse.h"
#include "kernels/cpu/index/bounds.h"
#include "kernels/cpu/nn/loops.h"

namespace mt::cpu {

namespace {

// The indices of a call, checked: nothing is read or written outside of the operands.
struct CompressedRows {
    Packed starts, places;
    int64_t rows, count;

    CompressedRows(const Call& call, int64_t columns)
        : starts(call.in(0), DType::I64), places(call.in(1), DType::I64), rows(call.in(0).numel - 1),
          count(call.in(1).numel) {
        bool rises = crow()[0] == 0 && crow()[rows] == count;
        for (int64_t i = 0; rises && i < rows; ++i) rises = crow()[i] <= crow()[i + 1];
        if (!rises)
            fail(std::string(op_name(call)) + "(): the compressed indices must rise from 0 to " +
                 std::to_string(count));
        check_bounds(col(), count, 0, columns, 1, ErrorKind::Index);
    }
    const int64_t* crow() const { return static_cast<const int64_t*>(starts.data()); }
    const int64_t* col() const { return static_cast<const int64_t*>(places.data()); }
    // In rows, where an element takes `cost`.
    int64_t grain(int64_t cost) const { return grain_of(cost * (count / std::max<int64_t>(rows, 1) + 1)); }
};

template <class T>
void csr_matmul(Call& call) {
    const Tensor &v = call.in(2), &x = call.in(3);
    const CompressedRows rows(call, x.sizes[0]);
    Packed values(v, DTypeOf<T>::value), dense(x, DTypeOf<T>::value);
    ContiguousOut target(*call.outputs[0], DTypeOf<T>::value);
    const int64_t n = x.sizes[1], *crow = rows.crow(), *col = rows.col();
    const T *w = values.template as<T>(), *from = dense.template as<T>();
    T* out = target.template as<T>();
    const auto add_rows = nn_loops<T>().add_rows;
    parallel_for(rows.rows, rows.grain(n), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = crow[i], count = crow[i + 1] - first;
            if (n == 1) {
                T sum = 0;
                for (int64_t e = first; e < first + count; ++e) sum += w[e] * from[col[e]];
                out[i] = sum;
            } else {
                add_rows(out + i * n, w + first, col + first, count, from, n);
            }
        }
    });
    target.store();
}

template <class T>
void csr_sampled(Call& call) {
    const Tensor &a = call.in(2), &b = call.in(3);
    const CompressedRows rows(call, b.sizes[0]);
    Packed left(a, DTypeOf<T>::value), right(b, DTypeOf<T>::value);
    ContiguousOut target(*call.outputs[0], DTypeOf<T>::value);
    const int64_t n = a.sizes[1], *crow = rows.crow(), *col = rows.col();
    const T *x = left.template as<T>(), *y = right.template as<T>();
    T* out = target.template as<T>();
    const auto dot = nn_loops<T>().dot;
    parallel_for(rows.rows, rows.grain(n), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            for (int64_t e = crow[i]; e < crow[i + 1]; ++e) out[e] = dot(x + i * n, y + col[e] * n, n, 1);
    });
    target.store();
}

void csr_matmul_kernel(Call& call) {
    if (call.in(3).dtype == DType::F64) csr_matmul<double>(call);
    else csr_matmul<float>(call);
}

void csr_sampled_kernel(Call& call) {
    if (call.in(3).dtype == DType::F64) csr_sampled<double>(call);
    else csr_sampled<float>(call);
}

const RegisterNative registered{
    {"_csr_matmul", infer_csr_matmul, csr_matmul_kernel},
    {"_csr_sampled", infer_csr_sampled, csr_sampled_kernel},
};

}  // namespace

}  // namespace mt::cpu
