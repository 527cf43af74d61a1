// gather, scatter, scatter_add and the other combinations of scatter.
#include <algorithm>
#include <limits>

#include "dispatch/infer/shape/index.h"
#include "dispatch/op.h"
#include "kernels/cpu/index/axes.h"

namespace mt::cpu {

namespace {

// The places of an index tensor, as [outer, n, inner] around the indexed dimension. Array a is the tensor that is
// indexed, b the one that goes with the index, element by element.
struct Walk {
    Axes outer, inner;
    int64_t n = 1, a_along = 1, b_along = 1, index_along = 1;

    Walk(const Dims& sizes, size_t dim, const Dims& a, const Dims& b) {
        if (!a.empty()) a_along = a[dim];
        if (sizes.empty()) return;
        n = sizes[dim];
        b_along = b[dim];
        for (size_t d = 0; d < dim; ++d) outer.add(sizes[d], a[d], b[d]);
        for (size_t d = dim + 1; d < sizes.size(); ++d) inner.add(sizes[d], a[d], b[d]);
        if (n == 1 && inner.total() == 1) std::swap(outer, inner);  // one place of each row: all of them are one run
        index_along = inner.total();
    }

    // f(a, b, index, n, step of a, step of b) for runs along which a's element is that of the index's value, which is
    // added to it `a_along` times. Threads share out everything but the indexed dimension, whose order is kept.
    template <class A, class B, class F>
    void run(A* a, B* b, const int64_t* index, F&& f) const {
        int64_t parts = num_threads(), total = inner.total();
        int64_t pieces = outer.total() >= parts ? 1 : std::clamp<int64_t>(total / 16, 1, parts);
        int64_t length = (total + pieces - 1) / pieces;
        parallel_for(outer.total() * pieces, grain_of(n * length), [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
                int64_t o = task / pieces, first = task % pieces * length, last = std::min(total, first + length);
                Axes::Offset base = outer.at(o);
                const int64_t* at = index + o * n * index_along;
                if (total == 1) {
                    f(a + base.a, b + base.b, at, n, int64_t{0}, b_along);
                    continue;
                }
                for (int64_t i = 0; i < n; ++i)
                    inner.for_each_run(first, last, [&](int64_t k, Axes::Offset place, int64_t many, Axes::Offset by) {
                        f(a + base.a + place.a, b + base.b + i * b_along + place.b, at + i * index_along + k, many,
                          by.a, by.b);
                    });
            }
        });
    }
};

size_t dim_of(const Call& call) {
    return static_cast<size_t>(normalize_dim(call.param(0).as_int(), call.in(0).ndim()));
}

// A 0-d tensor goes with an index of one dimension.
void match_rank(Dims& strides, const Tensor& index) {
    if (strides.size() < index.ndim()) strides.resize(index.ndim());
}

void check_all(const Call& call, const int64_t* at, size_t dim) {
    const Tensor &t = call.in(0), &index = call.in(1);
    int64_t size = t.ndim() ? t.sizes[dim] : 1;
    parallel_for(index.numel, kGrain, [&](int64_t begin, int64_t end) {
        check_bounds(at + begin, end - begin, 0, size, static_cast<int64_t>(dim), ErrorKind::Runtime);
    });
}

void gather_kernel(Call& call) {
    const Tensor &t = call.in(0), &index = call.in(1);
    Tensor& out = *call.outputs[0];
    if (index.numel == 0) return;
    size_t dim = dim_of(call);
    Packed indices(index, DType::I64);
    const auto* at = indices.as<int64_t>();
    int64_t size = t.ndim() ? t.sizes[dim] : 1;
    Dims strides = t.strides;
    match_rank(strides, index);
    Walk walk(index.sizes, dim, strides, contiguous_strides(index.sizes));
    ContiguousOut target(out, t.dtype);
    with_bits(itemsize(t.dtype), [&](auto bits) {
        using T = decltype(bits);
        walk.run(t.ptr<T>(), target.as<T>(), at,
                 [&](const T* from, T* to, const int64_t* places, int64_t n, int64_t step, int64_t to_step) {
                     // Here, while the indices are in the cache.
                     check_bounds(places, n, 0, size, static_cast<int64_t>(dim), ErrorKind::Runtime);
                     if (to_step == 1 && step == 0 && walk.a_along == 1)
                         for (int64_t k = 0; k < n; ++k) to[k] = from[places[k]];
                     else if (to_step == 1)
                         for (int64_t k = 0; k < n; ++k) to[k] = from[k * step + places[k] * walk.a_along];
                     else
                         for (int64_t k = 0; k < n; ++k) to[k * to_step] = from[k * step + places[k] * walk.a_along];
                 });
    });
    target.store();
}

// What the kernels that write have in common: `run(target, source, indices, walk)` combines in the target, which has
// input's elements as `dtype` and is stored at the end.
template <class F>
void scatter(Call& call, DType dtype, F&& run) {
    const Tensor &t = call.in(0), &index = call.in(1), &src = call.in(2);
    Tensor& out = *call.outputs[0];
    size_t dim = dim_of(call);
    Packed indices(index, DType::I64, shares_memory(index, out));
    const auto* at = indices.as<int64_t>();
    check_all(call, at, dim);
    bool own = src.dtype == dtype && !shares_memory(src, out);  // read where it lies, whatever its strides
    Scratch copy;
    const void* values = src.data();
    Dims strides = src.strides;
    if (!own) {
        void* memory = copy.reserve(static_cast<size_t>(src.numel) * itemsize(dtype));
        pack(memory, dtype, src);
        values = memory;
        strides = contiguous_strides(src.sizes);
    }
    match_rank(strides, index);
    ContiguousOut target(out, dtype);
    if (target.data() != t.data()) pack(target.data(), dtype, t);
    if (index.numel) {
        Dims target_strides = contiguous_strides(t.sizes);
        match_rank(target_strides, index);
        run(target.data(), values, at, Walk(index.sizes, dim, target_strides, strides));
    }
    target.store();
}

template <class T, class Op>
void combine(void* target, const void* values, const int64_t* at, const Walk& walk, Op op) {
    int64_t along = walk.a_along;
    walk.run(static_cast<T*>(target), static_cast<const T*>(values), at,
             [&](T* to, const T* from, const int64_t* places, int64_t n, int64_t step, int64_t from_step) {
                 if (step == 0 && along == 1 && from_step == 1)
                     for (int64_t k = 0; k < n; ++k) op(to[places[k]], from[k]);
                 else
                     for (int64_t k = 0; k < n; ++k) op(to[k * step + places[k] * along], from[k * from_step]);
             });
}

void scatter_kernel(Call& call) {
    DType dtype = call.in(0).dtype;
    scatter(call, dtype, [&](void* target, const void* values, const int64_t* at, const Walk& walk) {
        with_bits(itemsize(dtype), [&](auto bits) { combine<decltype(bits)>(target, values, at, walk, Assign{}); });
    });
}

void scatter_add_kernel(Call& call) {
    DType dtype = combining_dtype(call.in(0).dtype);
    scatter(call, dtype, [&](void* target, const void* values, const int64_t* at, const Walk& walk) {
        with_ring(dtype, [&](auto value) { combine<decltype(value)>(target, values, at, walk, Add{}); });
    });
}

struct Multiply {
    template <class T>
    void operator()(T& to, const T& value) const {
        if constexpr (__is_same(T, bool)) to = to & value;
        else if constexpr (sizeof(T) < sizeof(int)) to = static_cast<T>(static_cast<unsigned>(to) * value);
        else to = to * value;
    }
};
// NaN is the extreme.
struct Largest {
    template <class T>
    void operator()(T& to, const T& value) const {
        if (value > to || value != value) to = value;
    }
};
struct Smallest {
    template <class T>
    void operator()(T& to, const T& value) const {
        if (value < to || value != value) to = value;
    }
};

enum Mode : int64_t { kSum, kProd, kMean, kAmax, kAmin };

template <class T>
void set_touched(void* target, const int64_t* at, const Walk& walk, T value) {
    combine<T>(target, target, at, walk, [value](T& to, const T&) { to = value; });
}

template <class T>
T least() {
    if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::lowest();
}
template <class T>
T most() {
    if constexpr (std::numeric_limits<T>::has_infinity) return std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::max();
}

template <class T>
constexpr bool kIsComplex = __is_same(T, ComplexOf<float>) || __is_same(T, ComplexOf<double>);

template <class T>
T one() {
    if constexpr (kIsComplex<T>) return {1, 0};
    else return T(1);
}

// Sums over counts: floats divided, integers rounded down.
void divide_counts(void* target, DType dtype, const int64_t* counts, int64_t numel) {
    auto each = [&](auto value, auto divide) {
        using T = decltype(value);
        auto* elements = static_cast<T*>(target);
        parallel_for(numel, kGrain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                if (counts[i] > 1) elements[i] = divide(elements[i], counts[i]);
        });
    };
    if (dtype == DType::C64)
        each(ComplexOf<float>{},
             [](auto x, int64_t n) { return decltype(x){x.re / static_cast<float>(n), x.im / static_cast<float>(n)}; });
    else if (dtype == DType::C128)
        each(ComplexOf<double>{}, [](auto x, int64_t n) {
            return decltype(x){x.re / static_cast<double>(n), x.im / static_cast<double>(n)};
        });
    else
        with_order(dtype, [&](auto value) {
            using T = decltype(value);
            each(value, [](T x, int64_t n) {
                if constexpr (std::numeric_limits<T>::is_integer && std::numeric_limits<T>::is_signed) {
                    int64_t wide = x, quotient = wide / n;
                    return static_cast<T>(quotient - (wide % n < 0));
                } else if constexpr (std::numeric_limits<T>::is_integer) {
                    return static_cast<T>(static_cast<uint64_t>(x) / static_cast<uint64_t>(n));
                } else {
                    return static_cast<T>(x / static_cast<T>(n));
                }
            });
        });
}

void scatter_reduce_kernel(Call& call) {
    const Tensor& t = call.in(0);
    DType dtype = combining_dtype(t.dtype);
    int64_t mode = call.param(1).as_int();
    bool include_self = call.param(2).as_bool();
    scatter(call, dtype, [&](void* target, const void* values, const int64_t* at, const Walk& walk) {
        if (mode == kAmax || mode == kAmin) {
            with_order(dtype, [&](auto value) {
                using T = decltype(value);
                if (!include_self) set_touched<T>(target, at, walk, mode == kAmax ? least<T>() : most<T>());
                if (mode == kAmax) combine<T>(target, values, at, walk, Largest{});
                else combine<T>(target, values, at, walk, Smallest{});
            });
            return;
        }
        with_ring(dtype, [&](auto value) {
            using T = decltype(value);
            if (!include_self) set_touched<T>(target, at, walk, mode == kProd ? one<T>() : T{});
            if (mode == kProd) combine<T>(target, values, at, walk, Multiply{});
            else combine<T>(target, values, at, walk, Add{});
        });
        if (mode == kMean) {
            Scratch memory(static_cast<size_t>(t.numel) * sizeof(int64_t));
            auto* counts = memory.as<int64_t>();
            std::fill(counts, counts + t.numel, include_self ? 1 : 0);
            combine<int64_t>(counts, counts, at, walk, [](int64_t& count, const int64_t&) { ++count; });
            divide_counts(target, dtype, counts, t.numel);
        }
    });
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"gather", infer_gather, gather_kernel, Takes::Stored},
                                    {"scatter", infer_scatter, scatter_kernel, Takes::Stored},
                                    {"scatter_add", infer_scatter_add, scatter_add_kernel},
                                    {"_scatter_reduce", infer_scatter, scatter_reduce_kernel},
                                }};

}  // namespace

}  // namespace mt::cpu
