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
    if (!fits && pytorch_words && q.ndim() == 3 && k.ndim() == 3 && q.sizes[0] == k.sizes[0] &&
        q.sizes[2] != k.sizes[2])
        fail("Expected size for first two dimensions of batch2 tensor to be: " +
             to_string(Dims{q.sizes[0], q.sizes[2]}) + " but got: " + to_string(Dims{k.sizes[0], k.sizes[2]}) + ".");
    if (!fits)
        fail("attention: query [B, L, E], key [B, S, E] and value [B, S, V] do not fit: " + to_string(q.sizes) + ", " +
             to_string(k.sizes) + ", " + to_string(v.sizes));
    if (call.operand_count <= first + 3 || !call.operands[first + 3].tensor) return;
    const Tensor& mask = call.in(first + 3);
    if (mask.dtype != q.dtype || !(mask.sizes == Dims{q.sizes[0], q.sizes[1], k.sizes[1]}))
        fail("attention: expected a mask of query's dtype and shape [B, L, S], but got " + to_string(mask.sizes));
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

}  // namespace mt
