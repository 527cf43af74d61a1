// The op registry: what Python's rows declare, joined with the native half registered in C++.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "dispatch/op.h"

namespace mt {

enum class ArgType : uint8_t {
    Tensor,      // an operand; a Python number is accepted where `scalar_ok`
    TensorList,  // operands; only as the first argument
    Bool,
    Int,
    Float,
    Scalar,
    Ints,
    DTypeArg,
    DeviceArg
};

struct ArgSpec {
    std::string name;
    PyObject* interned = nullptr;
    ArgType type = ArgType::Tensor;
    bool optional = false;     // `T?`: None is accepted
    bool scalar_ok = false;    // `Tensor|Scalar`
    bool keyword_only = false;
    bool variadic = false;     // `int[] size` may be spread over positional arguments, as in x.view(2, 3)
    bool has_default = false;
    Value default_value;
};

// What a call has room for.
inline constexpr size_t kMaxCallParams = 12, kMaxCallArgs = 20;

// One of the names that PyTorch gives an op's backward node, for the calls that it holds for: those whose operand is a
// tensor, or whose parameter is given; with `!given` the others; or those with operands of so many dimensions.
struct NodeName {
    std::string name;
    int operand = -1, param = -1;
    bool given = true;
    std::vector<size_t> ranks;
};

// What may be given as `out`: nothing; a tensor of any dtype that the result can be cast to; one of the result's own
// dtype; or where there are several results of their own dtypes, and else any.
enum class OutRule : uint8_t { None, Cast, Exact, SeveralExact };

struct OpDef {
    int id = 0;
    std::string name;
    Kind kind = Kind::Opaque;
    std::vector<ArgSpec> args;  // in the order of a Python call
    // Which of `args` are operands and which parameters: kernels, vjp and lower get all operands first.
    std::vector<uint8_t> operand_args, param_args;
    bool operand_list = false;  // the operands are one TensorList
    size_t operand_count() const { return operand_args.size(); }  // of the schema; a TensorList counts once
    PyObject* result_type = nullptr;  // of named results: the tuple type, null for others
    std::string schema;
    InferFn infer = nullptr;   // null: the result's shape depends on data
    KernelFn cpu = nullptr;
    AdvanceFn advance = nullptr;
    Takes takes = Takes::Loop;
    PyObject* python_kernel[static_cast<size_t>(DeviceType::Count)] = {};
    PyObject* python_infer = nullptr;  // set by extensions
    PyObject* row = nullptr;   // minitensor.ops' record; the JIT reads its rules
    PyObject* vjp = nullptr;
    // Which arguments of `vjp(g, out, *operands, **params)` it reads; the rest are not saved.
    enum class Reads : uint8_t { Nothing, All, Places };  // of the results; places are those of integers
    Reads vjp_saves_out = Reads::Nothing;
    std::vector<uint8_t> vjp_saves_operand;
    // Per operand, what its gradient is computed from: bit 0 the result, bit 1 + i operand i. Empty: from all that's
    // read.
    std::vector<uint32_t> vjp_reads;
    CastTo autocast[2] = {};  // on the CPU, and on a GPU
    bool compilable = false;
    std::vector<NodeName> node_names;  // the first that holds; none does: made of the op's name
    bool numbers_as_tensors = false;   // PyTorch makes a tensor of a number among the operands
    int predicate = -1;                // the operand that chooses, and is no part of the arithmetic
    bool fallible = false;  // a call may fail by the values of its operands; of an elementwise op, one on integers
    OutRule out = OutRule::Cast;
    bool differentiable() const { return vjp != nullptr; }
};

// "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None)"; operands may stand anywhere, as in
// "gather(Tensor input, int dim, Tensor index)". Several results may have names: "... -> (Tensor values, Tensor
// indices)"; the type of the tuple is called as the op, or as what stands before the parenthesis.
OpDef& define_op(const std::string& schema, Kind kind);
OpDef* find_op(std::string_view name);
OpDef& op_by_id(int id);
size_t op_count();

}  // namespace mt
