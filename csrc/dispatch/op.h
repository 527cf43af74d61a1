// What an op is to C++: a name, a schema, an inference function and a kernel per device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ambient.h"
#include "core/tensor.h"

namespace mt {

class Twister;

// A Python number, with the dtype category it brings to promotion.
struct Scalar {
    enum Tag : uint8_t { Bool, Int, Float, Complex } tag = Int;
    uint32_t place = 0;  // among the numbers of the function that is recorded (numbers.h); 0: it is always this one
    union {
        int64_t i = 0;
        double f;  // the real part of a complex number
    };
    double imag = 0.0;
    static Scalar of(bool value) {
        Scalar s;
        s.tag = Bool;
        s.i = value;
        return s;
    }
    static Scalar of(int64_t value) {
        Scalar s;
        s.tag = Int;
        s.i = value;
        return s;
    }
    static Scalar of(double value) {
        Scalar s;
        s.tag = Float;
        s.f = value;
        return s;
    }
    static Scalar of(double re, double im) {
        Scalar s = of(re);
        s.tag = Complex;
        s.imag = im;
        return s;
    }
    DType dtype(const Ambient& ambient) const {
        return tag == Bool    ? DType::Bool
               : tag == Int   ? DType::I64
               : tag == Float ? ambient.default_dtype()
                              : ambient.default_complex_dtype();
    }
    double as_double() const { return tag >= Float ? f : static_cast<double>(i); }
    int64_t as_int() const { return tag >= Float ? static_cast<int64_t>(f) : i; }
    bool operator==(const Scalar& other) const {
        return tag == other.tag && i == other.i &&
               __builtin_bit_cast(int64_t, imag) == __builtin_bit_cast(int64_t, other.imag);
    }
};
// `value` as an element of `dtype` at `out`: rounded, wrapped, or without its imaginary part.
void store_scalar(const Scalar& value, DType dtype, void* out);
// The element of `dtype` at `data`. An uint64 wraps.
Scalar load_scalar(const void* data, DType dtype);

// A parameter of a call that is not a tensor operand.
struct Value {
    enum Tag : uint8_t { None, Bool, Int, Float, Complex, Type, Ints, Dev } tag = None;
    DType dtype{};
    Device device{};
    union {
        int64_t i = 0;
        double f;
    };
    double imag = 0.0;
    Dims ints;

    static Value of(const Scalar& scalar) {
        Value value;
        value.tag = static_cast<Tag>(static_cast<int>(Bool) + static_cast<int>(scalar.tag));
        value.i = scalar.i;  // or its bits as a double
        value.imag = scalar.imag;
        return value;
    }
    bool is_none() const { return tag == None; }
    bool as_bool() const { return i != 0; }
    int64_t as_int() const { return tag == Float || tag == Complex ? static_cast<int64_t>(f) : i; }
    double as_double() const { return tag == Float || tag == Complex ? f : static_cast<double>(i); }
    Scalar as_scalar() const {
        return tag == Bool      ? Scalar::of(i != 0)
               : tag == Complex ? Scalar::of(f, imag)
               : tag == Float   ? Scalar::of(f)
                                : Scalar::of(i);
    }
    bool operator==(const Value& other) const {
        return tag == other.tag && (tag == Type   ? dtype == other.dtype
                                    : tag == Dev  ? device == other.device
                                    : tag == Ints ? ints == other.ints
                                                  : i == other.i && __builtin_bit_cast(int64_t, imag) ==
                                                                        __builtin_bit_cast(int64_t, other.imag));
    }
};

uint64_t hash_of(const Value* values, size_t count);

// A tensor operand of a call: a tensor, a Python number in its place, or nothing (an optional operand).
struct Operand {
    Tensor* tensor = nullptr;  // borrowed for the duration of the call
    Scalar scalar;
    bool is_scalar = false;
    bool is_none() const { return !tensor && !is_scalar; }
};

struct OpDef;

// What inference decides for one result.
struct ResultMeta {
    DType dtype = DType::F32;
    Dims sizes;
    // Views only:
    Dims strides;
    int64_t offset = 0;
};

// One call: operands and parameters come in, inference fills `results`, the kernel reads `inputs` and writes `outputs`.
struct Call {
    explicit Call(Ambient of) : ambient(of) {}
    const OpDef* op = nullptr;
    Operand* operands = nullptr;
    size_t operand_count = 0;
    Value* params = nullptr;
    size_t param_count = 0;
    ResultMeta results[3];
    Tensor* outputs[3] = {};  // set for the kernel
    size_t result_count = 1;
    // The dtype the operands are converted to before the arithmetic (elementwise kinds); inference sets it.
    DType compute = DType::F32;
    // Where it runs, and its results are; set by the call path.
    Device device{};
    // All that it means beside its operands and parameters.
    Ambient ambient;
    // For random ops: the stream position that was reserved for this call.
    uint64_t seed = 0, philox_offset = 0;
    // If it draws from PyTorch's generator at once: that.
    Twister* twister = nullptr;
    // Bit i: operand i is a tensor of the caller's that nothing can see after the call.
    uint32_t dying = 0;
    // Where it may be recorded: the hash of the parameters that inference was given, which it may have changed.
    uint64_t given = 0;

    const Tensor& in(size_t i) const { return *operands[i].tensor; }
    const Value& param(size_t i) const { return params[i]; }
};

using InferFn = void (*)(Call& call);
using KernelFn = void (*)(Call& call);
// Of an op that draws as PyTorch does: brings a generator to where the call, whose results are inferred, leaves it.
using AdvanceFn = void (*)(const Call& call, Twister& twister);

enum class Kind : uint8_t {
    Elementwise,
    Reduction,
    View,
    Movement,
    Contraction,
    Index,
    Random,
    Creation,
    Composite,
    Opaque
};

// Which operands a kernel takes. Others are converted to the types that loops are compiled for (loop_dtype) before it
// runs, and its results back to what they should be: in temporary memory, and with one rounding.
enum class Takes : uint8_t {
    Loop,     // the real types of loops; uint64 comes as int64 with the same bits
    Ordered,  // the same, for kernels that only compare and move elements: uint64 comes as int64 in the same order
    Any,      // everything that inference lets through but floats of eight bits
    Stored,   // these too: it moves elements, or looks at them one by one
};

// What autocast makes of an op's operands: nothing, its dtype, float32, or the widest dtype among them. Same: nothing,
// and autocast is off for the calls that a composed function makes.
enum class CastTo : uint8_t { Nothing, Lower, Float32, Widest, Same };

// Static registration of the C++ half of an op: one line beside each kernel.
struct NativeOp {
    const char* name;
    InferFn infer;
    KernelFn cpu;  // null for views, whose result is metadata
    Takes takes = Takes::Loop;
    AdvanceFn advance = nullptr;
};
void register_native(const NativeOp& op);
const NativeOp* find_native(std::string_view name);
struct RegisterNative {
    RegisterNative(std::initializer_list<NativeOp> ops) {
        for (const NativeOp& op : ops) register_native(op);
    }
    // All of them take the same.
    RegisterNative(Takes takes, std::initializer_list<NativeOp> ops) {
        for (NativeOp op : ops) {
            if (op.takes < takes) op.takes = takes;
            register_native(op);
        }
    }
};

// The sizes of `t`, whether tensor or number.
inline const Dims& sizes_of(const Operand& operand) {
    static const Dims none{};
    return operand.tensor ? operand.tensor->sizes : none;
}
// PyTorch's result_type over all operands of the call.
DType result_type(const Call& call);
// "aten-like" name for messages: op name of the call.
std::string_view op_name(const Call& call);

}  // namespace mt
