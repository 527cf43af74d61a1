#include "dispatch/infer/nn/attention.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

const Tensor& tensor_at(const Call& call, size_t i, const char* what) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type(std::string(op_name(call)) + "(): argument '" + what + "' must be Tensor");
    return call.in(i);
}

void add_result(Call& call, size_t i, DType dtype, const Dims& sizes) {
    call.results[i].dtype = dtype;
    call.results[i].sizes = sizes;
}

// The operands from `first` on: query, key, value and mask.
void check_attention(const Call& call, size_t first) {
    const Tensor &q = tensor_at(call, first, "query"), &k = tensor_at(call, first + 1, "key"),
                 &v = tensor_at(call, first + 2, "value");
    if (!is_floating(q.dtype) || k.dtype != q.dtype || v.dtype != q.dtype)
        fail(std::string("Expected query, key, and value to have the same dtype, but got query.dtype: ") +
             torch_type_name(q.dtype) + " key.dtype: " + torch_type_name(k.dtype) +
             " and value.dtype: " + torch_type_name(v.dtype) + " instead.");
    bool fits = q.ndim() == 3 && k.ndim() == 3 && v.ndim() == 3 && q.sizes[0] == k.sizes[0] &&
                q.sizes[0] == v.sizes[0] && q.sizes[2] == k.sizes[2] && k.sizes[1] == v.sizes[1];
    if (!fits)
        fail("attention: query [B, L, E], key [B, S, E] and value [B, S, V] do not fit: " + to_string(q.sizes) + ", " +
             to_string(k.sizes) + ", " + to_string(v.sizes));
    if (call.operand_count <= first + 3 || !call.operands[first + 3].tensor) return;
    const Tensor& mask = call.in(first + 3);
    if (mask.dtype != q.dtype || !(mask.sizes == Dims{q.sizes[0], q.sizes[1], k.sizes[1]}))
        fail("attention: expected a mask of query's dtype and shape [B, L, S], but got " + to_string(mask.sizes));
}

void check_indices(const Tensor& indices) {
    if (indices.dtype != DType::I64 && indices.dtype != DType::I32)
        fail(std::string("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                         "Int; but got ") +
             torch_type_name(indices.dtype) + " instead (while checking arguments for embedding)");
}

}  // namespace

void infer_attention(Call& call) {
    check_attention(call, 0);
    const Tensor &q = call.in(0), &v = call.in(2);
    call.result_count = 1;
    add_result(call, 0, q.dtype, {q.sizes[0], q.sizes[1], v.sizes[2]});
}

void infer_attention_backward(Call& call) {
    const Tensor& g = tensor_at(call, 0, "grad");
    check_attention(call, 1);
    const Tensor &q = call.in(1), &k = call.in(2), &v = call.in(3);
    if (!(g.sizes == Dims{q.sizes[0], q.sizes[1], v.sizes[2]})) fail("attention_backward: the gradient does not fit");
    call.result_count = 3;
    add_result(call, 0, q.dtype, q.sizes);
    add_result(call, 1, q.dtype, k.sizes);
    add_result(call, 2, q.dtype, v.sizes);
}

void infer_embedding(Call& call) {
    const Tensor &w = tensor_at(call, 0, "weight"), &indices = tensor_at(call, 1, "indices");
    if (w.ndim() != 2) fail("'weight' must be 2-D");
    check_indices(indices);
    call.result_count = 1;
    add_result(call, 0, w.dtype, indices.sizes);
    call.results[0].sizes.push_back(w.sizes[1]);
}

void infer_embedding_backward(Call& call) {
    const Tensor &g = tensor_at(call, 0, "grad"), &indices = tensor_at(call, 1, "indices");
    check_indices(indices);
    if (!is_floating(g.dtype))
        throw Error(ErrorKind::NotImplemented,
                    std::string("\"embedding_backward\" not implemented for '") + torch_type_name(g.dtype) + "'");
    if (g.ndim() != indices.ndim() + 1) fail("embedding_backward: the gradient must have one dimension more");
    call.result_count = 1;
    add_result(call, 0, g.dtype, {call.param(0).as_int(), g.sizes.back()});
}

}  // namespace mt
