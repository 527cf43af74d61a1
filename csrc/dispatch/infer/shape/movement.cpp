#include "dispatch/infer/shape/movement.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

std::string text(int64_t value) { return std::to_string(value); }

ResultMeta& result(Call& call, DType dtype, const Dims& sizes) {
    call.result_count = 1;
    call.compute = call.results[0].dtype = dtype;
    call.results[0].sizes = sizes;
    return call.results[0];
}

}  // namespace

void infer_flip(Call& call) {
    const Tensor& t = call.in(0);
    uint64_t seen = 0;
    for (int64_t given : call.param(0).ints) {
        int64_t d = normalize_dim(given, t.ndim());
        if (seen >> d & 1) fail("dim " + text(d) + " appears multiple times in the list of dims");
        seen |= uint64_t(1) << d;
    }
    result(call, t.dtype, t.sizes);
}

void infer_roll(Call& call) {
    const Tensor& t = call.in(0);
    const Dims &shifts = call.param(0).ints, &dims = call.param(1).ints;
    if (shifts.empty()) fail("`shifts` required");
    if (shifts.size() != dims.size() && !(dims.empty() && shifts.size() == 1))
        fail("shifts and dimensions must align. shifts: " + text(static_cast<int64_t>(shifts.size())) +
             ", dims:" + text(static_cast<int64_t>(dims.size())));
    for (int64_t d : dims) {
        if (!t.ndim()) fail_index("Dimension specified as " + text(d) + " but tensor has no dimensions");
        normalize_dim(d, t.ndim());
    }
    result(call, t.dtype, t.sizes);
}

void infer_pad(Call& call) {
    const Tensor& t = call.in(0);
    const Dims& pad = call.param(0).ints;
    if (pad.size() % 2)
        fail("Length of pad must be even but instead it equals " + text(static_cast<int64_t>(pad.size())));
    if (pad.size() > 2 * t.ndim())
        fail("Length of pad should be no more than twice the number of dimensions of the input. Pad length is " +
             text(static_cast<int64_t>(pad.size())) + "while the input has " + text(static_cast<int64_t>(t.ndim())) +
             "dimensions.");
    Dims sizes = t.sizes;
    for (size_t i = 0; i < pad.size() / 2; ++i) {
        size_t d = t.ndim() - 1 - i;
        int64_t low = pad[2 * i], high = pad[2 * i + 1];
        sizes[d] = wrapping_add(wrapping_add(t.sizes[d], low), high);
        // What is cut off must be there.
        bool empty = (low < 0 && low + t.sizes[d] < -std::max<int64_t>(high, 0)) || sizes[d] < 0;
        if (empty)
            fail("The input size " + text(t.sizes[d]) + ", plus negative padding " + text(low) + " and " + text(high) +
                 ", resulted in a negative output size, which is invalid. Check dimension " +
                 text(static_cast<int64_t>(d)) + " of your input.");
    }
    product(sizes);
    check_fits(call.param(1).as_scalar(), t.dtype);
    result(call, t.dtype, sizes);
}

void infer_masked_fill(Call& call) {
    const Tensor &t = call.in(0), &mask = call.in(1);
    if (mask.dtype != DType::Bool)
        fail(std::string("masked_fill_ only supports boolean masks, but got mask with dtype ") + info(mask.dtype).name);
    const Operand& value = call.operands[2];
    if (value.tensor) {
        if (value.tensor->ndim())
            fail("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with " +
                 text(static_cast<int64_t>(value.tensor->ndim())) + " dimension(s).");
        if (info(value.tensor->dtype).category == kComplex && info(t.dtype).category < kComplex)
            fail(std::string("value cannot be converted to type ") + torch_type_name(t.dtype) + " without overflow");
    } else {
        check_fits(value.scalar, t.dtype);
    }
    result(call, t.dtype, broadcast_shapes(t.sizes, mask.sizes));
}

void infer_masked_scatter(Call& call) {
    const Tensor &t = call.in(0), &mask = call.in(1), &source = call.in(2);
    if (t.dtype != source.dtype)
        fail(std::string("masked_scatter: expected self and source to have same dtypes but got ") +
             torch_type_name(t.dtype) + " and " + torch_type_name(source.dtype));
    if (mask.dtype != DType::Bool)
        fail(std::string("masked_scatter_ only supports boolean masks, but got mask with dtype ") +
             torch_type_name(mask.dtype));
    result(call, t.dtype, broadcast_shapes(t.sizes, mask.sizes));
}

int64_t lower_triangle_size(int64_t rows, int64_t cols, int64_t offset) {
    if (rows == 0 || cols == 0 || offset <= -rows) return 0;
    // Rows before `first` have nothing, those from `full` on everything, the others one more than the row before.
    int64_t first = std::clamp<int64_t>(-offset, 0, rows), full = std::clamp<int64_t>(cols - 1 - offset, first, rows);
    int64_t shortest = std::min(cols, first + offset + 1), grown = full - first;
    return grown * shortest + grown * (grown - 1) / 2 + (rows - full) * cols;
}

template <bool lower> void infer_triangle_indices(Call& call) {
    int64_t rows = call.param(0).as_int(), cols = call.param(1).as_int(), offset = call.param(2).as_int();
    if (rows < 0) fail("row must be non-negative, got" + text(rows));
    if (cols < 0) fail("col must be non-negative, got" + text(cols));
    DType dtype = call.param(3).is_none() ? DType::I64 : call.param(3).dtype;
    if (dtype != DType::I64 && dtype != DType::I32)
        throw Error(ErrorKind::NotImplemented,
                    "\"" + std::string(op_name(call)) + "\" not implemented for '" + torch_type_name(dtype) + "'");
    int64_t below = lower_triangle_size(rows, cols, lower ? offset : offset - 1);
    result(call, dtype, Dims{2, lower ? below : rows * cols - below});
}
template void infer_triangle_indices<true>(Call& call);
template void infer_triangle_indices<false>(Call& call);

}  // namespace mt
