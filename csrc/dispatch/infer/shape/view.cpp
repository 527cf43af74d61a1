#include "dispatch/infer/shape/view.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "dispatch/infer/complex.h"

namespace mt {

namespace {

// The result starts as the input itself.
ResultMeta& start(Call& call) {
    if (!call.operand_count || !call.operands[0].tensor) fail_type("argument 'input' (position 1) must be Tensor");
    const Tensor& t = call.in(0);
    ResultMeta& meta = call.results[0];
    call.result_count = 1;
    meta.dtype = t.dtype;
    meta.sizes = t.sizes;
    meta.strides = t.strides;
    meta.offset = t.offset;
    return meta;
}

// Ints, or one Int.
Dims ints_of(const Value& value) {
    if (value.tag == Value::Ints) return value.ints;
    Dims one;
    one.push_back(value.as_int());
    return one;
}

int64_t int_or(const Call& call, size_t i, int64_t fallback) {
    return i < call.param_count && !call.param(i).is_none() ? call.param(i).as_int() : fallback;
}

// Keeps the dimensions whose bit in `drop` is not set.
void drop_dims(ResultMeta& meta, uint64_t drop) {
    size_t kept = 0;
    for (size_t d = 0; d < meta.sizes.size(); ++d) {
        if (drop >> d & 1) continue;
        meta.sizes[kept] = meta.sizes[d];
        meta.strides[kept++] = meta.strides[d];
    }
    meta.sizes.resize(kept);
    meta.strides.resize(kept);
}

}  // namespace

// PyTorch's rule, which also says what the strides of dimensions of size 1 are.
bool compute_view_strides(const Dims& sizes, const Dims& strides, const Dims& new_sizes, Dims& out_strides) {
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
        out_strides = sizes == new_sizes ? strides : contiguous_strides(new_sizes);
        return true;
    }
    out_strides.resize(new_sizes.size());
    // Runs of old dimensions that lie regularly in memory, from the innermost: each must be filled by whole new
    // dimensions.
    size_t at = new_sizes.size();
    int64_t run = 1, base = sizes.empty() ? 1 : strides.back();  // elements of the run, the distance of neighbours
    for (size_t d = sizes.size(); d-- > 0;) {
        run *= sizes[d];
        if (d > 0 && (sizes[d - 1] == 1 || strides[d - 1] == base * run)) continue;
        int64_t filled = 1;
        while (at > 0 && (filled < run || new_sizes[at - 1] == 1)) {
            --at;
            out_strides[at] = base * filled;
            filled = wrapping_mul(filled, new_sizes[at]);
        }
        if (filled != run) return false;
        run = 1;
        if (d > 0) base = strides[d - 1];
    }
    while (at > 0) out_strides[--at] = 1;  // only sizes of 1 are left
    return true;
}

void infer_minus_one(Dims& size, int64_t numel) {
    int64_t known = 1;
    size_t inferred = size.size();
    bool overflow = false;
    for (size_t d = 0; d < size.size(); ++d) {
        if (size[d] == -1) {
            if (inferred != size.size()) fail("only one dimension can be inferred");
            inferred = d;
        } else if (size[d] < 0) {
            fail("invalid shape dimension " + std::to_string(size[d]) + " at index " + std::to_string(d) +
                 " of shape " + to_string(size));
        } else {
            overflow |= __builtin_mul_overflow(known, size[d], &known);
        }
    }
    bool fits = !overflow;
    if (inferred == size.size()) fits &= known == numel;
    else fits &= known ? numel % known == 0 : numel == 0;
    if (!fits) fail("shape '" + to_string(size) + "' is invalid for input of size " + std::to_string(numel));
    if (inferred == size.size()) return;
    if (known == 0)
        fail("cannot reshape tensor of 0 elements into shape " + to_string(size) +
             " because the unspecified dimension size -1 can be any value and is ambiguous");
    size[inferred] = numel / known;
}

void infer_view(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    meta.sizes = ints_of(call.param(0));
    infer_minus_one(meta.sizes, t.numel);
    if (!compute_view_strides(t.sizes, t.strides, meta.sizes, meta.strides))
        fail("view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
             "contiguous subspaces). Use .reshape(...) instead.");
}

void infer_expand(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    Dims size = ints_of(call.param(0));
    if (size.size() < t.ndim())
        fail("expand(minitensor." + std::string(torch_type_name(t.dtype)) + "Tensor{" + to_string(t.sizes) +
             "}, size=" + to_string(size) + "): the number of sizes provided (" + std::to_string(size.size()) +
             ") must be greater or equal to the number of dimensions in the tensor (" + std::to_string(t.ndim()) + ")");
    size_t lead = size.size() - t.ndim();
    meta.strides.resize(size.size());
    for (size_t d = size.size(); d-- > 0;) {
        if (d < lead) {
            if (size[d] < 0)
                fail("The expanded size of the tensor (" + std::to_string(size[d]) +
                     ") isn't allowed in a leading, non-existing dimension " + std::to_string(d));
            meta.strides[d] = 0;
            continue;
        }
        int64_t own = t.sizes[d - lead], stride = t.strides[d - lead];
        if (size[d] == -1) size[d] = own;
        if (size[d] != own) {
            if (own != 1 || size[d] < 0)
                fail("The expanded size of the tensor (" + std::to_string(size[d]) +
                     ") must match the existing size (" + std::to_string(own) + ") at non-singleton dimension " +
                     std::to_string(d) + ".  Target sizes: " + to_string(size) +
                     ".  Tensor sizes: " + to_string(t.sizes));
            stride = 0;
        }
        meta.strides[d] = stride;
    }
    product(size);  // throws on overflow
    meta.sizes = size;
}

void infer_permute(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    Dims dims = ints_of(call.param(0));
    if (dims.size() != t.ndim())
        fail("permute(dims): number of dimensions in the tensor input does not match the length of the desired "
             "ordering of "
             "dimensions i.e. input.dim() = " +
             std::to_string(t.ndim()) + " is not equal to len(dims) = " + std::to_string(dims.size()));
    uint64_t seen = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
        auto d = static_cast<size_t>(normalize_dim(dims[i], t.ndim()));
        if (seen >> d & 1) fail("permute(): duplicate dims are not allowed.");
        seen |= uint64_t(1) << d;
        meta.sizes[i] = t.sizes[d];
        meta.strides[i] = t.strides[d];
    }
}

void infer_transpose(Call& call) {
    ResultMeta& meta = start(call);
    size_t rank = call.in(0).ndim();
    auto a = static_cast<size_t>(normalize_dim(call.param(0).as_int(), rank));
    auto b = static_cast<size_t>(normalize_dim(call.param(1).as_int(), rank));
    if (!rank) return;
    std::swap(meta.sizes[a], meta.sizes[b]);
    std::swap(meta.strides[a], meta.strides[b]);
}

void infer_squeeze(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    uint64_t named = 0;
    if (!call.param_count || call.param(0).is_none()) {
        named = ~uint64_t(0);
    } else {
        for (int64_t given : ints_of(call.param(0))) {
            int64_t d = normalize_dim(given, t.ndim());
            if (named >> d & 1) fail("dim " + std::to_string(d) + " appears multiple times in the list of dims");
            named |= uint64_t(1) << d;
        }
    }
    uint64_t drop = 0;
    for (size_t d = 0; d < t.ndim(); ++d)
        if (t.sizes[d] == 1) drop |= named & (uint64_t(1) << d);
    drop_dims(meta, drop);
}

void infer_unsqueeze(Call& call) {
    ResultMeta& meta = start(call);
    size_t rank = call.in(0).ndim();
    auto at = static_cast<size_t>(normalize_dim(call.param(0).as_int(), rank + 1));
    int64_t stride = at < rank ? wrapping_mul(meta.sizes[at], meta.strides[at]) : 1;
    meta.sizes.insert(at, 1);
    meta.strides.insert(at, stride);
}

void infer_select(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    if (!t.ndim()) fail_index("select() cannot be applied to a 0-dim tensor.");
    auto d = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    int64_t index = call.param(1).as_int(), size = t.sizes[d];
    if (index < -size || index >= size)
        fail_index("select(): index " + std::to_string(index) + " out of range for tensor of size " +
                   to_string(t.sizes) + " at dimension " + std::to_string(d));
    meta.offset = wrapping_add(meta.offset, wrapping_mul(index < 0 ? index + size : index, t.strides[d]));
    meta.sizes.erase(d);
    meta.strides.erase(d);
}

void infer_slice(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    if (!t.ndim()) fail_index("slice() cannot be applied to a 0-dim tensor.");
    auto d = static_cast<size_t>(normalize_dim(int_or(call, 0, 0), t.ndim()));
    int64_t size = t.sizes[d], begin = int_or(call, 1, 0), end = int_or(call, 2, size), step = int_or(call, 3, 1);
    if (step <= 0) fail("slice step must be positive");
    auto bounded = [size](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
    begin = bounded(begin);
    end = std::max(bounded(end), begin);
    meta.offset = wrapping_add(meta.offset, wrapping_mul(begin, t.strides[d]));
    meta.sizes[d] = (end - begin) / step + ((end - begin) % step != 0);
    meta.strides[d] = wrapping_mul(meta.strides[d], step);
}

void infer_as_strided(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    Dims size = ints_of(call.param(0)), stride = ints_of(call.param(1));
    int64_t offset = int_or(call, 2, t.offset);
    if (size.size() != stride.size()) fail("mismatch in length of strides and shape");
    for (int64_t s : stride)
        if (s < 0)
            fail("as_strided: Negative strides are not supported at the moment, got strides: " + to_string(stride));
    if (offset < 0) fail("Tensor: invalid storage offset " + std::to_string(offset));
    int64_t last = offset;  // the last element that is reached
    bool overflow = false;
    if (product(size))
        for (size_t d = 0; d < size.size(); ++d) {
            int64_t reach;
            overflow |= __builtin_mul_overflow(size[d] - 1, stride[d], &reach);
            overflow |= __builtin_add_overflow(last, reach, &last);
        }
    else last = -1;
    auto bytes_each = static_cast<int64_t>(itemsize(t.dtype));
    if (overflow || last >= INT64_MAX / bytes_each)
        fail("Storage size calculation overflowed with sizes=" + to_string(size) + " and strides=" + to_string(stride));
    int64_t bytes = (last + 1) * bytes_each;
    if (static_cast<size_t>(bytes) > t.storage->nbytes)
        fail("setStorage: sizes " + to_string(size) + ", strides " + to_string(stride) + ", storage offset " +
             std::to_string(offset) + ", and itemsize " + std::to_string(bytes_each) + " requiring a storage size of " +
             std::to_string(bytes) + " are out of bounds for storage of size " + std::to_string(t.storage->nbytes));
    meta.sizes = size;
    // Strides and offsets of any size are accepted where there are no elements; none of them is computed with.
    meta.strides = last < 0 ? contiguous_strides(size) : stride;
    meta.offset = last < 0 ? t.offset : offset;
}

void infer_alias(Call& call) { start(call); }

void infer_diagonal(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    int64_t offset = int_or(call, 0, 0);
    auto a = static_cast<size_t>(normalize_dim(int_or(call, 1, 0), t.ndim()));
    auto b = static_cast<size_t>(normalize_dim(int_or(call, 2, 1), t.ndim()));
    if (a == b)
        fail("diagonal dimensions cannot be identical " + std::to_string(int_or(call, 1, 0)) + ", " +
             std::to_string(int_or(call, 2, 1)));
    int64_t rows = t.sizes[a], cols = t.sizes[b], length;
    if (offset >= 0) length = std::max<int64_t>(std::min(rows, offset < cols ? cols - offset : 0), 0);
    else length = std::max<int64_t>(std::min(offset > -rows ? rows + offset : 0, cols), 0);
    if (length)
        meta.offset = wrapping_add(meta.offset, offset >= 0 ? wrapping_mul(offset, t.strides[b])
                                                            : wrapping_mul(-offset, t.strides[a]));
    int64_t stride = wrapping_add(t.strides[a], t.strides[b]);
    drop_dims(meta, uint64_t(1) << a | uint64_t(1) << b);
    meta.sizes.push_back(length);
    meta.strides.push_back(stride);
}

void infer_unfold(Call& call) {
    ResultMeta& meta = start(call);
    const Tensor& t = call.in(0);
    auto d = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    int64_t size = call.param(1).as_int(), step = call.param(2).as_int();
    int64_t length = t.ndim() ? t.sizes[d] : 1, stride = t.ndim() ? t.strides[d] : 1;
    if (size < 0) fail("size is " + std::to_string(size) + " but must be >= 0");
    if (size > length)
        fail("maximum size for tensor at dimension " + std::to_string(d) + " is " + std::to_string(length) +
             " but size is " + std::to_string(size));
    if (step <= 0) fail("step is " + std::to_string(step) + " but must be > 0");
    if (t.ndim()) {
        meta.sizes[d] = (length - size) / step + 1;
        meta.strides[d] = wrapping_mul(stride, step);
    }
    meta.sizes.push_back(size);
    meta.strides.push_back(stride);
}

namespace {

const RegisterNative registered{
    {"view", infer_view, nullptr},
    {"expand", infer_expand, nullptr},
    {"permute", infer_permute, nullptr},
    {"transpose", infer_transpose, nullptr},
    {"squeeze", infer_squeeze, nullptr},
    {"unsqueeze", infer_unsqueeze, nullptr},
    {"select", infer_select, nullptr},
    {"slice", infer_slice, nullptr},
    {"as_strided", infer_as_strided, nullptr},
    {"alias", infer_alias, nullptr},
    {"diagonal", infer_diagonal, nullptr},
    {"unfold", infer_unfold, nullptr},
    {"view_as_real", infer_view_as_real, nullptr},
    {"view_as_complex", infer_view_as_complex, nullptr},
    {"_view_dtype", infer_view_dtype, nullptr},
};

}  // namespace

}  // namespace mt
