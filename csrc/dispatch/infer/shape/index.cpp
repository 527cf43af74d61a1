#include "dispatch/infer/shape/index.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

std::string text(int64_t value) { return std::to_string(value); }

const Tensor& tensor_at(const Call& call, size_t i) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type(std::string(op_name(call)) + "(): argument " + text(static_cast<int64_t>(i) + 1) + " must be Tensor");
    return call.in(i);
}

int64_t dim_param(const Call& call, const Tensor& t) { return normalize_dim(call.param(0).as_int(), t.ndim()); }

ResultMeta& result(Call& call, DType dtype, const Dims& sizes) {
    call.result_count = 1;
    call.results[0].dtype = dtype;
    call.results[0].sizes = sizes;
    return call.results[0];
}

void check_index_dtype(const Tensor& index, const char* name) {
    if (index.dtype != DType::I64 && index.dtype != DType::I32)
        fail(std::string(name) + "(): Expected dtype int32/int64 for index" +
             detail(std::string(", but got ") + torch_type_name(index.dtype)));
}

// A 0-d tensor counts as one of shape [1].
int64_t rank_of(const Tensor& t) { return t.ndim() ? static_cast<int64_t>(t.ndim()) : 1; }
int64_t size_at(const Tensor& t, size_t d) { return t.ndim() ? t.sizes[d] : 1; }

// input[:dim] + index.shape + input[dim+1:].
Dims selected_sizes(const Tensor& t, const Tensor& index, size_t dim) {
    Dims sizes;
    for (size_t d = 0; d < dim; ++d) sizes.push_back(t.sizes[d]);
    for (int64_t size : index.sizes) sizes.push_back(size);
    for (size_t d = dim + 1; d < t.ndim(); ++d) sizes.push_back(t.sizes[d]);
    return sizes;
}

// The checks that index_add and index_copy share.
void infer_index_write(Call& call, const char* name) {
    const Tensor &t = tensor_at(call, 0), &index = tensor_at(call, 1), &src = tensor_at(call, 2);
    auto dim = static_cast<size_t>(dim_param(call, t));
    check_index_dtype(index, name);
    if (t.dtype != src.dtype)
        fail(std::string(name) + "(): self (" + torch_type_name(t.dtype) + ") and source (" +
             torch_type_name(src.dtype) + ") must have the same scalar type");
    Dims expected = selected_sizes(t, index, dim);
    if (!(src.sizes == expected) && !(t.ndim() == 0 && src.numel == 1 && index.numel == 1))
        fail(std::string(name) + "(): source has shape " + to_string(src.sizes) + ", but an index of shape " +
             to_string(index.sizes) + " along dim " + text(static_cast<int64_t>(dim)) + " of a tensor of shape " +
             to_string(t.sizes) + " expects " + to_string(expected));
    result(call, t.dtype, t.sizes);
}

void infer_triangle(Call& call, const char* name) {
    const Tensor& t = tensor_at(call, 0);
    if (t.ndim() < 2) fail(std::string(name) + ": input tensor must have at least 2 dimensions");
    result(call, t.dtype, t.sizes);
}

}  // namespace

void infer_gather(Call& call) {
    const Tensor &t = tensor_at(call, 0), &index = tensor_at(call, 1);
    auto dim = static_cast<size_t>(dim_param(call, t));
    if (index.numel == 0) {  // nothing to look up, so nothing to check, not even its dtype
        result(call, t.dtype, index.sizes);
        return;
    }
    check_index_dtype(index, "gather");
    if (rank_of(t) != rank_of(index)) fail("Index tensor must have the same number of dimensions as input tensor");
    for (size_t d = 0; d < t.ndim(); ++d)
        if (d != dim && size_at(index, d) > t.sizes[d])
            fail("Size does not match at dimension " + text(static_cast<int64_t>(d)) + " expected index " +
                 to_string(index.sizes) + " to be no larger than self " + to_string(t.sizes) +
                 " apart from dimension " + text(static_cast<int64_t>(dim)));
    result(call, t.dtype, index.sizes);
}

void infer_scatter_add(Call& call) { infer_scatter(call); }

void infer_scatter(Call& call) {
    const Tensor &t = tensor_at(call, 0), &index = tensor_at(call, 1), &src = tensor_at(call, 2);
    auto dim = static_cast<size_t>(dim_param(call, t));
    if (index.numel) check_index_dtype(index, "scatter");
    if (t.dtype != src.dtype) fail("scatter(): Expected self.dtype to be equal to src.dtype");
    result(call, t.dtype, t.sizes);
    if (index.numel == 0) return;
    if (rank_of(t) != rank_of(index)) fail("Index tensor must have the same number of dimensions as self tensor");
    if (rank_of(index) != rank_of(src)) fail("Index tensor must have the same number of dimensions as src tensor");
    for (size_t d = 0; d < static_cast<size_t>(rank_of(t)); ++d)
        if ((d != dim && size_at(index, d) > size_at(t, d)) || size_at(index, d) > size_at(src, d))
            fail("Expected index " + to_string(index.sizes) + " to be no larger than self " + to_string(t.sizes) +
                 " apart from dimension " + text(static_cast<int64_t>(dim)) + " and to be no larger size than src " +
                 to_string(src.sizes));
}

void infer_index_select(Call& call) {
    const Tensor &t = tensor_at(call, 0), &index = tensor_at(call, 1);
    auto dim = static_cast<size_t>(dim_param(call, t));
    if (index.dtype != DType::I64 && index.dtype != DType::I32)
        fail("index_select(): Expected dtype int32 or int64 for index");
    if (t.ndim() == 0 && index.numel != 1)
        fail("index_select(): Index to scalar can have only 1 value, got " + text(index.numel) + " value(s)");
    result(call, t.dtype, t.ndim() ? selected_sizes(t, index, dim) : t.sizes);
}

Dims indexed_sizes(const Tensor& t, const Tensor& index, const Dims& dims) {
    auto is_indexed = [&](size_t d) {
        return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    };
    bool adjacent = true;
    for (size_t i = 0; i < dims.size(); ++i) adjacent &= dims[i] == dims[0] + static_cast<int64_t>(i);
    size_t place = adjacent && dims.size() ? static_cast<size_t>(dims[0]) : 0;
    Dims sizes;
    for (size_t d = 0; d < place; ++d) sizes.push_back(t.sizes[d]);
    for (int64_t size : index.sizes) sizes.push_back(size);
    for (size_t d = place; d < t.ndim(); ++d)
        if (!is_indexed(d)) sizes.push_back(t.sizes[d]);
    return sizes;
}

namespace {

void check_indexed_dims(const Tensor& t, const Tensor& index, const Dims& dims) {
    if (is_floating(index.dtype) || is_complex(index.dtype) || index.dtype == DType::Bool)
        fail_index("tensors used as indices must be long, int, byte or bool tensors");
    if (dims.empty()) fail("an index needs dimensions");
    int64_t size = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] < (i ? dims[i - 1] + 1 : 0) || dims[i] >= static_cast<int64_t>(t.ndim()))
            fail("the indexed dimensions " + to_string(dims) + " don't fit a tensor of shape " + to_string(t.sizes));
        size *= t.sizes[static_cast<size_t>(dims[i])];
    }
    if (size == 0 && index.numel != 0) fail_index("index is out of bounds for dimension with size 0");
}

}  // namespace

void infer_index(Call& call) {
    const Tensor &t = tensor_at(call, 0), &index = tensor_at(call, 1);
    check_indexed_dims(t, index, call.param(0).ints);
    result(call, t.dtype, indexed_sizes(t, index, call.param(0).ints));
}

void infer_index_put(Call& call) {
    const Tensor &t = tensor_at(call, 0), &index = tensor_at(call, 1), &values = tensor_at(call, 2);
    check_indexed_dims(t, index, call.param(0).ints);
    if (values.dtype != t.dtype)
        fail(std::string("Index put requires the source and destination dtypes match, got ") +
             torch_type_name(t.dtype) + " for the destination and " + torch_type_name(values.dtype) +
             " for the source.");
    Dims sizes = indexed_sizes(t, index, call.param(0).ints);
    bool fits = values.ndim() <= sizes.size();
    for (size_t d = 0; fits && d < values.ndim(); ++d) {
        int64_t own = values.sizes[values.ndim() - 1 - d];
        fits = own == 1 || own == sizes[sizes.size() - 1 - d];
    }
    if (!fits)
        fail("shape mismatch: value tensor of shape " + to_string(values.sizes) +
             " cannot be broadcast to indexing result of shape " + to_string(sizes));
    result(call, t.dtype, t.sizes);
}

void infer_flat_index(Call& call) {
    const Dims &sizes = call.param(0).ints, &dims = call.param(1).ints;
    if (call.operand_count != sizes.size() || call.operand_count != dims.size() || !call.operand_count)
        fail("as many index tensors as sizes and dimensions are needed");
    Dims shape = tensor_at(call, 0).sizes;
    std::string shapes;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor& index = tensor_at(call, i);
        if (is_floating(index.dtype) || is_complex(index.dtype) || index.dtype == DType::Bool)
            fail_index("tensors used as indices must be long, int, byte or bool tensors");
        shapes += (i ? ", " : "") + to_string(index.sizes);
    }
    for (size_t i = 1; i < call.operand_count; ++i) {
        const Dims& other = call.in(i).sizes;
        for (size_t d = 0; d < std::min(other.size(), shape.size()); ++d) {
            int64_t a = shape[shape.size() - 1 - d], b = other[other.size() - 1 - d];
            if (a != b && a != 1 && b != 1)
                fail_index("shape mismatch: indexing tensors could not be broadcast together with shapes " + shapes);
        }
        shape = broadcast_shapes(shape, other);
    }
    result(call, DType::I64, shape);
}

void infer_index_add(Call& call) { infer_index_write(call, "index_add"); }
void infer_index_copy(Call& call) { infer_index_write(call, "index_copy"); }

void infer_cat(Call& call) {
    if (!call.operand_count) fail_value("minitensor.cat(): expected a non-empty list of Tensors");
    const Tensor* shape = nullptr;  // of the first that isn't skipped
    ResultType dtype;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor& t = tensor_at(call, i);
        if (t.ndim() == 0)
            fail("zero-dimensional tensor (at position " + text(static_cast<int64_t>(i)) + ") cannot be concatenated");
        dtype.add_tensor(t.dtype, false);
        if (!shape && !cat_skips(t)) shape = &t;
    }
    if (!shape) {
        result(call, dtype.get(call.ambient), call.in(0).sizes);
        return;
    }
    auto dim = static_cast<size_t>(dim_param(call, *shape));
    ResultMeta& meta = result(call, dtype.get(call.ambient), shape->sizes);
    int64_t total = 0;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor& t = call.in(i);
        if (cat_skips(t)) continue;
        if (t.ndim() != shape->ndim())
            fail("Tensors must have same number of dimensions: got " + text(rank_of(*shape)) + " and " +
                 text(rank_of(t)));
        for (size_t d = 0; d < t.ndim(); ++d)
            if (d != dim && t.sizes[d] != shape->sizes[d])
                fail("Sizes of tensors must match except in dimension " + text(static_cast<int64_t>(dim)) +
                     ". Expected size " + text(shape->sizes[d]) + " but got size " + text(t.sizes[d]) +
                     " for tensor number " + text(static_cast<int64_t>(i)) + " in the list.");
        total += t.sizes[dim];
    }
    meta.sizes[dim] = total;
}

void infer_tril(Call& call) { infer_triangle(call, "tril"); }
void infer_triu(Call& call) { infer_triangle(call, "triu"); }

}  // namespace mt
