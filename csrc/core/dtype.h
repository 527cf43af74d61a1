// Element types, their sizes and PyTorch's promotion rules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/numbers.h"

namespace mt {

enum class DType : uint8_t { Bool, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64, C64, C128, Count };

// The types of elements in memory.
#define MT_FOREACH_DTYPE(X) \
    X(Bool, bool)           \
    X(U8, uint8_t)          \
    X(I8, int8_t)           \
    X(U16, uint16_t)        \
    X(I16, int16_t)         \
    X(U32, uint32_t)        \
    X(I32, int32_t)         \
    X(U64, uint64_t)        \
    X(I64, int64_t)         \
    X(F16, half)            \
    X(BF16, bfloat16)       \
    X(F32, float)           \
    X(F64, double)          \
    X(C64, complex64)       \
    X(C128, complex128)

// Those of the real numbers that every kernel is compiled for.
#define MT_FOREACH_LOOP_DTYPE(X) \
    X(Bool, bool)                \
    X(U8, uint8_t)               \
    X(I32, int32_t)              \
    X(I64, int64_t)              \
    X(F32, float)                \
    X(F64, double)

template <class T>
struct DTypeOf;
#define MT_DTYPE_OF(D, T)                        \
    template <>                                  \
    struct DTypeOf<T> {                          \
        static constexpr DType value = DType::D; \
    };
MT_FOREACH_DTYPE(MT_DTYPE_OF)
#undef MT_DTYPE_OF

struct DTypeInfo {
    const char* name;      // PyTorch's: float32
    const char* hlo_name;  // XLA's: f32
    const char* format;    // the buffer protocol's
    uint8_t itemsize;
    uint8_t category;  // 0 bool, 1 integer, 2 floating, 3 complex
    bool is_signed;
};

inline constexpr DTypeInfo kDTypes[] = {
    {"bool", "pred", "?", 1, 0, false},        {"uint8", "u8", "B", 1, 1, false},
    {"int8", "s8", "b", 1, 1, true},           {"uint16", "u16", "H", 2, 1, false},
    {"int16", "s16", "h", 2, 1, true},         {"uint32", "u32", "I", 4, 1, false},
    {"int32", "s32", "i", 4, 1, true},         {"uint64", "u64", "Q", 8, 1, false},
    {"int64", "s64", "q", 8, 1, true},         {"float16", "f16", "e", 2, 2, true},
    {"bfloat16", "bf16", "", 2, 2, true},      {"float32", "f32", "f", 4, 2, true},
    {"float64", "f64", "d", 8, 2, true},       {"complex64", "c64", "Zf", 8, 3, true},
    {"complex128", "c128", "Zd", 16, 3, true},
};
inline const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }
inline size_t itemsize(DType dtype) { return info(dtype).itemsize; }
inline bool is_floating(DType dtype) { return info(dtype).category == 2; }
inline bool is_complex(DType dtype) { return info(dtype).category == 3; }
inline bool is_integral(DType dtype) { return info(dtype).category == 1; }  // without bool

// The type in which elements of `dtype` are computed: loops are compiled for few types, and elements are converted when
// they are read and written. Small integers compute in int32, uint32 in int64, float16 and bfloat16 in float32; what is
// stored wraps around or is rounded once.
constexpr DType loop_dtype(DType dtype) {
    switch (dtype) {
        case DType::I8:
        case DType::U16:
        case DType::I16: return DType::I32;
        case DType::U32: return DType::I64;
        case DType::F16:
        case DType::BF16: return DType::F32;
        default: return dtype;
    }
}

// The real type of a complex type's parts, and the complex type of such parts; others stay (float16 has none:
// complex64).
DType real_dtype(DType dtype);
DType complex_dtype(DType dtype);

// The lattice of two tensors' dtypes of the same priority. Throws for uint16, uint32 and uint64 with other integers.
DType promote(DType a, DType b);
// Whether PyTorch's rules let a result of type `from` be stored as `to`: any type of the same or a higher category.
bool can_cast(DType from, DType to);
// PyTorch's name of a dtype in its messages: Float, Long, Byte.
const char* torch_type_name(DType dtype);

class Ambient;

// PyTorch's result_type: dimensioned tensors, then zero-dimensional ones, then Python scalars; a lower priority
// matters only when its category is higher.
class ResultType {
  public:
    void add_tensor(DType dtype, bool zero_dim) { merge(zero_dim ? zero_ : dim_, dtype); }
    void add_scalar(DType dtype) { merge(scalar_, dtype); }
    DType get(const Ambient& ambient) const;

  private:
    static void merge(int& slot, DType dtype) {
        slot = slot < 0 ? static_cast<int>(dtype) : static_cast<int>(promote(static_cast<DType>(slot), dtype));
    }
    int dim_ = -1, zero_ = -1, scalar_ = -1;
};

}  // namespace mt
