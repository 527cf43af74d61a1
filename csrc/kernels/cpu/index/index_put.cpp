// Whole slices named by an index: index_select, index_add, index_copy, and what x[...] with index tensors is made of.
#include <algorithm>
#include <cstring>

#include "dispatch/infer/shape/index.h"
#include "dispatch/op.h"
#include "kernels/cpu/index/axes.h"

namespace mt::cpu {

namespace {

// Indices in [low, size), and the error for one outside.
struct Bounds {
    int64_t low, size, dim;
    ErrorKind kind = ErrorKind::Index;

    void check(const int64_t* index, int64_t n) const {
        int64_t bad = first_out_of_bounds(index, n, low, size);
        if (bad == n) return;
        throw Error(kind, "index " + std::to_string(index[bad]) + " is out of bounds for dimension " +
                              std::to_string(dim) + " with size " + std::to_string(size));
    }
};

int64_t wrapped(int64_t index, int64_t size) { return index + (index >> 63 & size); }

// A tensor's dimensions around the indexed ones, which together count as one.
struct Around {
    SmallVector<size_t, 6> before, after;
    Dims dims;          // the indexed ones
    int64_t size = 1;   // their product
    int64_t along = 0;  // elements between neighbours along them; 0 if that is not regular
    bool regular = true;

    Around(const Tensor& t, const Dims& indexed) : dims(indexed) {
        auto first = dims.empty() ? 0 : static_cast<size_t>(dims[0]);
        bool adjacent = true;
        for (size_t i = 0; i < dims.size(); ++i) adjacent &= dims[i] == dims[0] + static_cast<int64_t>(i);
        for (size_t d = 0; d < t.ndim(); ++d) {
            if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end()) continue;
            if (adjacent && d < first) before.push_back(d);
            else after.push_back(d);
        }
        for (size_t i = dims.size(); i-- > 0;) {
            auto d = static_cast<size_t>(dims[i]);
            if (t.sizes[d] != 1) {
                if (size == 1) along = t.strides[d];
                else regular &= t.strides[d] == along * size;
            }
            size *= t.sizes[d];
        }
    }

    // Where place `at` of the indexed dimensions is.
    int64_t offset(const Tensor& t, int64_t at) const {
        int64_t offset = 0;
        for (size_t i = dims.size(); i-- > 0;) {
            auto d = static_cast<size_t>(dims[i]);
            offset += at % t.sizes[d] * t.strides[d];
            at /= t.sizes[d];
        }
        return offset;
    }
};

// Indices as places that are `along` elements apart. Where the indexed dimensions don't lie regularly in memory, they
// are offsets in elements.
class Places {
  public:
    // `often`: the indices are used for several rows, and so are made offsets once.
    Places(const Tensor& t, const Around& around, const Tensor& index, const Bounds& bounds, bool copy, bool often)
        : packed_(index, DType::I64, copy), at(packed_.as<int64_t>()), size(around.size), along(around.along) {
        if (around.regular && !often) return;
        auto* offsets = static_cast<int64_t*>(offsets_.reserve(static_cast<size_t>(index.numel) * sizeof(int64_t)));
        const int64_t* given = at;
        parallel_for(index.numel, kGrain / 8, [&](int64_t begin, int64_t end) {
            bounds.check(given + begin, end - begin);
            if (around.regular)
                for (int64_t i = begin; i < end; ++i) offsets[i] = wrapped(given[i], around.size) * around.along;
            else
                for (int64_t i = begin; i < end; ++i) offsets[i] = around.offset(t, wrapped(given[i], around.size));
        });
        at = offsets;
        along = 1;
        checked = true;
    }

  private:
    Packed packed_;
    Scratch offsets_;

  public:
    const int64_t* at;
    int64_t size, along;
    bool checked = false;
};

void check_all(const Bounds& bounds, const int64_t* at, int64_t count) {
    parallel_for(count, kGrain, [&](int64_t begin, int64_t end) { bounds.check(at + begin, end - begin); });
}

template <class T>
void take(T* out, const T* in, const Axes& before, const Axes& after, const Places& places, int64_t count,
          const Bounds& bounds) {
    constexpr int64_t kBlock = 4096;  // indices that are still in the cache when they are used
    int64_t inner = after.total(), size = places.size, along = places.along;
    bool dense = after.dense();
    parallel_for(before.total() * count, grain_of(inner), [&](int64_t begin, int64_t end) {
        while (begin < end) {
            int64_t o = begin / count, first = begin % count, n = std::min({count - first, end - begin, kBlock});
            const T* base = in + before.at(o).a;
            const int64_t* at = places.at + first;
            T* to = out + begin * inner;
            if (!places.checked) bounds.check(at, n);
            if (inner == 1 && places.checked) {
#pragma GCC unroll 8
                for (int64_t i = 0; i < n; ++i) to[i] = base[at[i]];
            } else if (inner == 1) {
#pragma GCC unroll 4
                for (int64_t i = 0; i < n; ++i) to[i] = base[wrapped(at[i], size) * along];
            } else if (dense) {
                for (int64_t i = 0; i < n; ++i)
                    copy_row(to + i * inner, base + wrapped(at[i], size) * along,
                             static_cast<size_t>(inner) * sizeof(T));
            } else {
                for (int64_t i = 0; i < n; ++i) {
                    const T* from = base + wrapped(at[i], size) * along;
                    after.for_each_run(0, inner, [&](int64_t k, Axes::Offset offset, int64_t run, Axes::Offset step) {
                        for (int64_t r = 0; r < run; ++r) to[i * inner + k + r] = from[offset.a + r * step.a];
                    });
                }
            }
            begin += n;
        }
    });
}

void take_slices(Call& call, const Dims& dims, const Bounds& bounds) {
    const Tensor &t = call.in(0), &index = call.in(1);
    Tensor& out = *call.outputs[0];
    Around around(t, dims);
    if (out.numel == 0) {
        Packed indices(index, DType::I64);
        check_all(bounds, indices.as<int64_t>(), index.numel);
        return;
    }
    Axes before, after;
    for (size_t d : around.before) before.add(t.sizes[d], t.strides[d]);
    Places places(t, around, index, bounds, false, before.total() > 1);
    for (size_t d : around.after) after.add(t.sizes[d], t.strides[d]);
    ContiguousOut target(out, t.dtype);
    with_bits(itemsize(t.dtype), [&](auto bits) {
        using T = decltype(bits);
        take(target.as<T>(), t.ptr<T>(), before, after, places, index.numel, bounds);
    });
    target.store();
}

// The values of a write, with broadcasting: their strides before, along and after the index.
struct Source {
    const void* data;
    Dims before, after;
    int64_t along = 0;
    Scratch packed;

    Source(const Tensor& values, const Dims& sizes, size_t place, size_t many, DType dtype, bool copy) {
        Dims strides = broadcast_strides(values.sizes, values.strides, sizes);
        bool regular = true, any = false;
        int64_t expected = 0;
        for (size_t d = place + many; d-- > place;) {
            if (sizes[d] == 1) continue;
            if (!any) along = strides[d];
            else regular &= strides[d] == expected;
            any = true;
            expected = strides[d] * sizes[d];
        }
        data = values.data();
        if (!regular || copy || values.dtype != dtype) {
            int64_t numel = product(sizes);
            void* memory = packed.reserve(static_cast<size_t>(numel) * itemsize(dtype));
            pack(memory, dtype, Strided(values.data(), values.dtype, sizes, strides, numel));
            data = memory;
            strides = contiguous_strides(sizes);
            along = many ? strides[place + many - 1] : 0;
            // A size of 1 at the end has the stride of what follows it, like any other.
        }
        for (size_t d = 0; d < place; ++d) before.push_back(strides[d]);
        for (size_t d = place + many; d < sizes.size(); ++d) after.push_back(strides[d]);
    }
};

// Single elements: each thread writes those of its part of the destination, so that they come in the index's order.
template <class T, class Op>
void put_elements(T* out, const T* values, const Places& places, int64_t count, int64_t step, Op op) {
    auto parts = static_cast<int64_t>(num_threads());
    if (count < kGrain || places.checked || parts == 1) {
        for (int64_t i = 0; i < count; ++i)
            op(out[wrapped(places.at[i], places.size) * places.along], values[i * step]);
        return;
    }
    int64_t part = (places.size + parts - 1) / parts;
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        T elsewhere[64] = {};  // what other threads write goes here, which is cheaper than a branch
        int64_t low = begin * part;
        auto width = static_cast<uint64_t>((end - begin) * part);
        for (int64_t i = 0; i < count; ++i) {
            int64_t at = wrapped(places.at[i], places.size);
            T* to = static_cast<uint64_t>(at - low) < width ? out + at * places.along : elsewhere + (i & 63);
            op(*to, values[i * step]);
        }
    });
}

// In the order of the index; threads share out the dimensions beside it.
template <class T, class Op>
void put(T* out, const T* values, const Axes& before, const Axes& after, const Places& places, int64_t count,
         int64_t step, Op op) {
    int64_t outer = before.total(), inner = after.total(), size = places.size, along = places.along;
    if (outer == 1 && inner == 1) return put_elements(out, values, places, count, step, op);
    constexpr int64_t least = 64;  // elements of a slice for one task
    int64_t pieces = outer >= num_threads() ? 1 : std::clamp<int64_t>(inner / least, 1, num_threads());
    int64_t length = (inner + pieces - 1) / pieces;
    parallel_for(outer * pieces, grain_of(count * length), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
            Axes::Offset base = before.at(task / pieces);
            int64_t first = task % pieces * length, last = std::min(inner, first + length);
            if (inner == 1) {
                T* row = out + base.a;
                const T* from = values + base.b;
                for (int64_t i = 0; i < count; ++i) op(row[wrapped(places.at[i], size) * along], from[i * step]);
                continue;
            }
            for (int64_t i = 0; i < count; ++i) {
                T* to = out + base.a + wrapped(places.at[i], size) * along;
                const T* from = values + base.b + i * step;
                after.for_each_run(first, last, [&](int64_t, Axes::Offset offset, int64_t n, Axes::Offset run) {
                    T* t = to + offset.a;
                    const T* v = from + offset.b;
                    if (run.a == 1 && run.b == 1) {
                        if constexpr (__is_same(Op, Assign)) copy_row(t, v, static_cast<size_t>(n) * sizeof(T));
                        else
                            for (int64_t k = 0; k < n; ++k) op(t[k], v[k]);
                    } else {
                        for (int64_t k = 0; k < n; ++k) op(t[k * run.a], v[k * run.b]);
                    }
                });
            }
        }
    });
}

// output = input with `values`, broadcast to `sizes` (the index's at `place`), written or added.
void put_slices(Call& call, const Dims& dims, const Tensor& values, const Dims& sizes, bool add, const Bounds& bounds) {
    const Tensor &t = call.in(0), &index = call.in(1);
    Tensor& out = *call.outputs[0];
    // Half precision is summed in float32 and rounded once.
    DType dtype = add ? combining_dtype(t.dtype) : t.dtype;
    bool direct = dtype == t.dtype && out.dtype == t.dtype && out.sizes == t.sizes;
    {
        Packed indices(index, DType::I64);
        check_all(bounds, indices.as<int64_t>(), index.numel);
    }
    Scratch sums;
    Tensor* target = &out;
    Ref<Tensor> made;
    if (direct) {
        if (out.data() != t.data() || !(out.strides == t.strides))
            strided_copy(out.data(), out.strides, t.data(), t.strides, t.sizes, itemsize(t.dtype));
    } else {
        void* memory = sums.reserve(static_cast<size_t>(t.numel) * itemsize(dtype));
        pack(memory, dtype, t);
        made = Tensor::make(Storage::wrap(
                                memory, static_cast<size_t>(t.numel) * itemsize(dtype), [](void*) {}, nullptr),
                            dtype, t.sizes, contiguous_strides(t.sizes), 0);
        target = made.get();
    }
    Around around(*target, dims);
    int64_t numel = product(sizes);
    if (numel) {
        int64_t rows = 1;
        for (size_t d : around.before) rows *= target->sizes[d];
        Places places(*target, around, index, bounds, shares_memory(index, out), rows > 1);
        size_t place = around.before.size();
        Source source(values, sizes, place, sizes.size() - place - around.after.size(), dtype,
                      shares_memory(values, out));
        Axes before, after;
        for (size_t i = 0; i < place; ++i)
            before.add(target->sizes[around.before[i]], target->strides[around.before[i]], source.before[i]);
        for (size_t i = 0; i < around.after.size(); ++i)
            after.add(target->sizes[around.after[i]], target->strides[around.after[i]], source.after[i]);
        auto run = [&](auto value, auto op) {
            using T = decltype(value);
            put(target->ptr<T>(), static_cast<const T*>(source.data), before, after, places, index.numel, source.along,
                op);
        };
        if (add) with_ring(dtype, [&](auto value) { run(value, Add{}); });
        else with_bits(itemsize(dtype), [&](auto value) { run(value, Assign{}); });
    }
    if (!direct) {
        Packed converted(*target, out.dtype);
        strided_copy(out.data(), out.strides, converted.data(), contiguous_strides(out.sizes), out.sizes,
                     itemsize(out.dtype));
    }
}

Dims one_dim(const Call& call) {
    Dims dims;
    if (call.in(0).ndim()) dims.push_back(normalize_dim(call.param(0).as_int(), call.in(0).ndim()));
    return dims;
}

Bounds whole_dim(const Call& call) {
    const Tensor& t = call.in(0);
    Dims dims = one_dim(call);
    int64_t dim = dims.empty() ? 0 : dims[0];
    return {0, dims.empty() ? 1 : t.sizes[static_cast<size_t>(dim)], dim};
}

void index_select_kernel(Call& call) { take_slices(call, one_dim(call), whole_dim(call)); }

template <bool Sum>
void index_write_kernel(Call& call) {
    const Tensor &t = call.in(0), &index = call.in(1);
    Dims dims = one_dim(call), sizes;
    size_t dim = dims.empty() ? 0 : static_cast<size_t>(dims[0]);
    for (size_t d = 0; d < dim; ++d) sizes.push_back(t.sizes[d]);
    for (int64_t size : index.sizes) sizes.push_back(size);
    for (size_t d = dim + 1; d < t.ndim(); ++d) sizes.push_back(t.sizes[d]);
    Bounds bounds = whole_dim(call);
    if (Sum && t.ndim() > 1) bounds.kind = ErrorKind::Runtime;  // as PyTorch has it
    put_slices(call, dims, call.in(2), sizes, Sum, bounds);
}

Bounds merged_bounds(const Call& call, size_t checked) {
    const Tensor& t = call.in(0);
    int64_t size = 1;
    for (int64_t d : call.param(0).ints) size *= t.sizes[static_cast<size_t>(d)];
    return {call.param(checked).as_bool() ? 0 : -size, size, call.param(0).ints[0]};
}

void index_kernel(Call& call) { take_slices(call, call.param(0).ints, merged_bounds(call, 1)); }

void index_put_kernel(Call& call) {
    Dims sizes = indexed_sizes(call.in(0), call.in(1), call.param(0).ints);
    put_slices(call, call.param(0).ints, call.in(2), sizes, call.param(2).as_bool(), merged_bounds(call, 1));
}

// Several index tensors, broadcast against each other, as one index into the dimensions merged.
void flat_index_kernel(Call& call) {
    Tensor& out = *call.outputs[0];
    const Dims &sizes = call.param(0).ints, &dims = call.param(1).ints;
    auto* to = static_cast<int64_t*>(out.data());
    if (out.numel == 0) return;  // nothing is looked up, whatever is in those that are broadcast
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor& given = call.in(i);
        Packed own(given, DType::I64);
        Bounds bounds{-sizes[i], sizes[i], dims[i]};
        check_all(bounds, own.as<int64_t>(), given.numel);
        Dims strides = broadcast_strides(given.sizes, contiguous_strides(given.sizes), out.sizes);
        Packed spread(Strided(own.data(), DType::I64, out.sizes, strides, out.numel), DType::I64);
        const auto* at = spread.as<int64_t>();
        int64_t size = sizes[i];
        parallel_for(out.numel, kGrain, [&](int64_t begin, int64_t end) {
            if (i == 0)
                for (int64_t k = begin; k < end; ++k) to[k] = wrapped(at[k], size);
            else
                for (int64_t k = begin; k < end; ++k) to[k] = to[k] * size + wrapped(at[k], size);
        });
    }
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"index_select", infer_index_select, index_select_kernel, Takes::Stored},
                                    {"index_add", infer_index_add, index_write_kernel<true>},
                                    {"index_copy", infer_index_copy, index_write_kernel<false>, Takes::Stored},
                                    {"_index", infer_index, index_kernel, Takes::Stored},
                                    {"_index_put", infer_index_put, index_put_kernel, Takes::Stored},
                                    {"_flat_index", infer_flat_index, flat_index_kernel},
                                }};

}  // namespace

}  // namespace mt::cpu
