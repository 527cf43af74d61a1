#include "dispatch/infer/complex.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

void same_shape(Call& call, DType compute, DType result) {
    call.compute = compute;
    call.results[0].dtype = result;
    call.results[0].sizes = call.in(0).sizes;
}

// Two real tensors of one type that make complex numbers.
void infer_parts(Call& call) {
    const Tensor &a = call.in(0), &b = call.in(1);
    auto real = [](DType dtype) { return dtype == DType::F32 || dtype == DType::F64; };
    if (!real(a.dtype) || !real(b.dtype))
        fail(std::string("Expected both inputs to be Half, Float or Double tensors but got ") +
             torch_type_name(a.dtype) + " and " + torch_type_name(b.dtype));
    if (a.dtype != b.dtype)
        fail(std::string("Expected object of scalar type ") + torch_type_name(a.dtype) + " but got scalar type " +
             torch_type_name(b.dtype) + " for second argument");
    call.compute = a.dtype;
    call.results[0].dtype = complex_dtype(a.dtype);
    call.results[0].sizes = broadcast_shapes(a.sizes, b.sizes);
}

ResultMeta& start(Call& call, DType dtype) {
    const Tensor& t = call.in(0);
    ResultMeta& meta = call.results[0];
    call.result_count = 1;
    meta.dtype = dtype;
    meta.sizes = t.sizes;
    meta.strides = t.strides;
    meta.offset = t.offset;
    return meta;
}

// Elements of `factor` times the size; strides and offset are multiples of that.
void in_larger_elements(ResultMeta& meta, int64_t factor) {
    for (size_t d = 0; d + 1 < meta.strides.size(); ++d) meta.strides[d] /= factor;
    meta.offset /= factor;
}

void in_smaller_elements(ResultMeta& meta, int64_t factor) {
    for (int64_t& stride : meta.strides) stride = wrapping_mul(stride, factor);
    meta.offset = wrapping_mul(meta.offset, factor);
}

}  // namespace

void refuse_complex(DType dtype, const char* message) {
    if (is_complex(dtype)) throw Error(ErrorKind::NotImplemented, message);
}

void infer_conj(Call& call) { same_shape(call, call.in(0).dtype, call.in(0).dtype); }
void infer_sgn(Call& call) { same_shape(call, call.in(0).dtype, call.in(0).dtype); }

void infer_angle(Call& call) {
    DType dtype = call.in(0).dtype;
    DType compute = info(dtype).category < kFloating ? call.ambient.default_dtype() : dtype;
    same_shape(call, compute, real_dtype(compute));
}

void infer_complex(Call& call) { infer_parts(call); }
void infer_polar(Call& call) { infer_parts(call); }

void infer_view_as_real(Call& call) {
    DType dtype = call.in(0).dtype;
    if (!is_complex(dtype)) fail("view_as_real is only supported for complex tensors");
    ResultMeta& meta = start(call, real_dtype(dtype));
    in_smaller_elements(meta, 2);
    meta.sizes.push_back(2);
    meta.strides.push_back(1);
}

void infer_view_as_complex(Call& call) {
    const Tensor& t = call.in(0);
    if (t.dtype != DType::F32 && t.dtype != DType::F64)
        fail(std::string("view_as_complex is only supported for half, float and double tensors, but got a tensor of "
                         "scalar type: ") +
             torch_type_name(t.dtype));
    if (t.ndim() == 0) fail("Input tensor must have one or more dimensions");
    if (t.sizes.back() != 2) fail("Tensor must have a last dimension of size 2");
    if (t.strides.back() != 1) fail("Tensor must have a last dimension with stride 1");
    ResultMeta& meta = start(call, complex_dtype(t.dtype));
    for (size_t d = 0; d + 1 < t.ndim(); ++d)
        if (t.strides[d] % 2) fail("Tensor must have a stride divisible by 2 for all but last dimension");
    if (t.offset % 2) fail("Tensor must have a storage_offset divisible by 2");
    in_larger_elements(meta, 2);
    meta.sizes.pop_back();
    meta.strides.pop_back();
}

void infer_view_dtype(Call& call) {
    const Tensor& t = call.in(0);
    DType dtype = call.param(0).dtype;
    ResultMeta& meta = start(call, dtype);
    auto from = static_cast<int64_t>(itemsize(t.dtype)), to = static_cast<int64_t>(itemsize(dtype));
    if (from == to) return;
    std::string names = std::string("view ") + torch_type_name(t.dtype) + " as " + torch_type_name(dtype) +
                        " (different element sizes)";
    if (t.ndim() == 0) fail("self.dim() cannot be 0 to " + names);
    size_t last = t.ndim() - 1;
    auto check_rows = [&] {
        if (t.strides[last] != 1)
            fail("self.stride(-1) must be 1 to " + names + ", but got " + std::to_string(t.strides[last]));
    };
    if (from > to) {
        check_rows();
        in_smaller_elements(meta, from / to);
        meta.sizes[last] = t.sizes[last] * (from / to);
        meta.strides[last] = 1;
        return;
    }
    int64_t factor = to / from;
    if (t.sizes[last] % factor)
        fail("self.size(-1) must be divisible by " + std::to_string(factor) + " to " + names + ", but got " +
             std::to_string(t.sizes[last]));
    if (meta.offset % factor)
        fail("self.storage_offset() must be divisible by " + std::to_string(factor) + " to " + names + ", but got " +
             std::to_string(t.offset));
    check_rows();
    for (size_t d = 0; d < last; ++d)
        if (t.strides[d] % factor)
            fail("self.stride(" + std::to_string(d) + ") must be divisible by " + std::to_string(factor) + " to " +
                 names + ", but got " + std::to_string(t.strides[d]));
    in_larger_elements(meta, factor);
    meta.sizes[last] = t.sizes[last] / factor;
}

}  // namespace mt
