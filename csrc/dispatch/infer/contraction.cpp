#include "dispatch/infer/contraction.h"

#include <string>

#include "core/error.h"

namespace mt {

const char* cpp_name(DType dtype) {
    switch (dtype) {
        case DType::Bool: return "bool";
        case DType::U8: return "unsigned char";
        case DType::I32: return "int";
        case DType::I64: return "long int";
        case DType::F32: return "float";
        case DType::F64: return "double";
        case DType::I8: return "signed char";
        case DType::I16: return "short int";
        case DType::U16: return "short unsigned int";
        case DType::U32: return "unsigned int";
        case DType::U64: return "long unsigned int";
        case DType::F16: return "c10::Half";
        case DType::BF16: return "c10::BFloat16";
        case DType::C64: return "c10::complex<float>";
        case DType::C128: return "c10::complex<double>";
        default: return info(dtype).name;
    }
}

namespace {

// What the dimensions before the last two broadcast to.
Dims batch_sizes(const Tensor& a, const Tensor& b) {
    return broadcast_shapes(Dims(a.sizes.data(), a.ndim() > 2 ? a.ndim() - 2 : 0),
                            Dims(b.sizes.data(), b.ndim() > 2 ? b.ndim() - 2 : 0));
}

[[noreturn]] void fail_shapes(const Tensor& a, const Tensor& b) {
    auto text = [](int64_t value) { return std::to_string(value); };
    int64_t k = a.sizes.back(), rows = 1;  // of `a` as one matrix
    for (size_t d = 0; d + 1 < a.ndim(); ++d) rows *= a.sizes[d];
    if (a.ndim() == 1 && b.ndim() == 1)
        fail("inconsistent tensor size, expected tensor [" + text(k) + "] and src [" + text(b.sizes[0]) +
             "] to have the same number of elements, but got " + text(k) + " and " + text(b.sizes[0]) +
             " elements respectively");
    if (b.ndim() == 1)
        fail("size mismatch, got input (" + text(rows) + "), mat (" + text(rows) + "x" + text(k) + "), vec (" +
             text(b.sizes[0]) + ")");
    if (b.ndim() == 2)
        fail("mat1 and mat2 shapes cannot be multiplied (" + text(rows) + "x" + text(k) + " and " + text(b.sizes[0]) +
             "x" + text(b.sizes[1]) + ")");
    int64_t batch = product(batch_sizes(a, b));
    std::string lead = "[" + text(batch) + ", ";
    fail("Expected size for first two dimensions of batch2 tensor to be: " + lead + text(k) + "] but got: " + lead +
         text(b.sizes[b.ndim() - 2]) + "]." +
         detail(" (matmul of shapes " + to_string(a.sizes) + " and " + to_string(b.sizes) + ")"));
}

// PyTorch's words are those of the product that these shapes mean: `dot`, `mv`, `mm` or `bmm`.
[[noreturn]] void fail_dtypes(const Tensor& a, const Tensor& b) {
    const std::string left = torch_type_name(a.dtype), right = torch_type_name(b.dtype);
    if (b.ndim() == 1 && a.ndim() == 1)
        fail("dot : expected both vectors to have same dtype, but found " + left + " and " + right);
    if (b.ndim() == 1)
        fail("addmv input tensors must have the same dtype, but got " + right + ", " + left + ", and " + right);
    if (b.ndim() > 2) fail("expected scalar type " + left + " but found " + right);
    fail(std::string("expected m1 and m2 to have the same dtype, but got: ") + cpp_name(a.dtype) +
         " != " + cpp_name(b.dtype));
}

}  // namespace

void infer_matmul(Call& call) {
    for (size_t i = 0; i < 2; ++i)
        if (i >= call.operand_count || !call.operands[i].tensor)
            fail_type(std::string("matmul(): argument '") + (i ? "other" : "input") + "' (position " +
                      std::to_string(i + 1) + ") must be Tensor");
    const Tensor &a = call.in(0), &b = call.in(1);
    if (!a.ndim() || !b.ndim())
        fail("both arguments to matmul need to be at least 1D, but they are " + std::to_string(a.ndim()) + "D and " +
             std::to_string(b.ndim()) + "D");
    if (a.sizes.back() != (b.ndim() == 1 ? b.sizes[0] : b.sizes[b.ndim() - 2])) fail_shapes(a, b);
    if (a.dtype != b.dtype) fail_dtypes(a, b);
    if (a.dtype == DType::Bool)
        throw Error(ErrorKind::NotImplemented, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
    call.result_count = 1;
    ResultMeta& meta = call.results[0];
    meta.dtype = a.dtype;
    meta.sizes.clear();
    if (a.ndim() > 2 || b.ndim() > 2) meta.sizes = batch_sizes(a, b);
    if (a.ndim() > 1) meta.sizes.push_back(a.sizes[a.ndim() - 2]);
    if (b.ndim() > 1) meta.sizes.push_back(b.sizes.back());
}

void infer_addmm(Call& call) {
    const Tensor &input = call.in(0), &a = call.in(1), &b = call.in(2);
    if (a.ndim() < 2 || b.ndim() != 2) fail("_addmm: expected a matrix on the right, and at least one on the left");
    if (a.sizes.back() != b.sizes[0]) fail_shapes(a, b);
    if (a.dtype != b.dtype)
        fail(std::string("expected m1 and m2 to have the same dtype, but got: ") + cpp_name(a.dtype) +
             " != " + cpp_name(b.dtype));
    const bool float8 = itemsize(a.dtype) == 1;
    if (input.dtype != a.dtype || !is_floating(a.dtype) || float8)
        fail("_addmm: expected operands of one dtype of float16, bfloat16, float32 or float64");
    call.result_count = 1;
    ResultMeta& meta = call.results[0];
    meta.dtype = a.dtype;
    meta.sizes = Dims(a.sizes.data(), a.ndim() - 1);
    meta.sizes.push_back(b.sizes[1]);
    if (input.ndim() > (a.ndim() == 2 ? 2 : 1) || broadcast_shapes(input.sizes, meta.sizes) != meta.sizes)
        fail("_addmm: an input of shape " + to_string(input.sizes) + " can't be added to " + to_string(meta.sizes));
}

void infer_cdist(Call& call) {
    const Tensor &a = call.in(0), &b = call.in(1);
    if (a.ndim() != 3 || b.ndim() != 3 || a.sizes[0] != b.sizes[0] || a.sizes[2] != b.sizes[2])
        fail("_cdist: expected two batches of as many sets of vectors of one length, got " + to_string(a.sizes) +
             " and " + to_string(b.sizes));
    if (a.dtype != b.dtype || !is_floating(a.dtype)) fail("_cdist: expected floating-point operands of one dtype");
    call.result_count = 1;
    call.results[0].dtype = a.dtype;
    call.results[0].sizes = {a.sizes[0], a.sizes[1], b.sizes[1]};
}

void infer_solve_triangular(Call& call) {
    const Tensor &a = call.in(0), &b = call.in(1);
    const bool left = call.param(1).as_bool();
    const std::string name = "_linalg_solve_triangular";
    const size_t rank = b.ndim();
    const int64_t n = a.ndim() < 2 ? 0 : a.sizes.back();
    if (a.ndim() < 2 || rank < 2 || a.sizes[a.ndim() - 2] != n || b.sizes[rank - (left ? 2 : 1)] != n)
        fail(name + ": expected square matrices and right sides that fit, got " + to_string(a.sizes) + " and " +
             to_string(b.sizes));
    if (a.dtype != DType::F32 && a.dtype != DType::F64 && a.dtype != DType::C64 && a.dtype != DType::C128)
        throw Error(ErrorKind::NotImplemented, name + " is not implemented for " + info(a.dtype).name);
    if (a.dtype != b.dtype) fail(name + ": expected operands of one dtype");
    call.result_count = 1;
    call.results[0].dtype = b.dtype;
    call.results[0].sizes = batch_sizes(a, b);
    call.results[0].sizes.push_back(b.sizes[rank - 2]);
    call.results[0].sizes.push_back(b.sizes[rank - 1]);
}

}  // namespace mt
