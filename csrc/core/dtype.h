// Element types, their sizes and PyTorch's promotion rules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/numbers.h"

namespace mt {

// Each comes before those that a number of it is promoted to; the last, of packed and quantised elements, stands alone.
enum Category : uint8_t { kBoolean, kInteger, kFloating, kComplex, kOtherCategory };

// The facts of every dtype, from which all lists are made: its C++ type, PyTorch's name, XLA's, the buffer protocol's,
// that of PyTorch's messages, the category, whether it is signed.
#define MT_FOREACH_DTYPE(X)                                                                                 \
    X(Bool, bool, "bool", "pred", "?", "Bool", kBoolean, false)                                             \
    X(U8, uint8_t, "uint8", "u8", "B", "Byte", kInteger, false)                                             \
    X(I8, int8_t, "int8", "s8", "b", "Char", kInteger, true)                                                \
    X(U16, uint16_t, "uint16", "u16", "H", "UInt16", kInteger, false)                                       \
    X(I16, int16_t, "int16", "s16", "h", "Short", kInteger, true)                                           \
    X(U32, uint32_t, "uint32", "u32", "I", "UInt32", kInteger, false)                                       \
    X(I32, int32_t, "int32", "s32", "i", "Int", kInteger, true)                                             \
    X(U64, uint64_t, "uint64", "u64", "Q", "UInt64", kInteger, false)                                       \
    X(I64, int64_t, "int64", "s64", "q", "Long", kInteger, true)                                            \
    X(F16, half, "float16", "f16", "e", "Half", kFloating, true)                                            \
    X(BF16, bfloat16, "bfloat16", "bf16", "", "BFloat16", kFloating, true)                                  \
    X(F32, float, "float32", "f32", "f", "Float", kFloating, true)                                          \
    X(F64, double, "float64", "f64", "d", "Double", kFloating, true)                                        \
    X(C64, complex64, "complex64", "c64", "Zf", "ComplexFloat", kComplex, true)                             \
    X(C128, complex128, "complex128", "c128", "Zd", "ComplexDouble", kComplex, true)                        \
    X(F8E4M3FN, float8_e4m3fn, "float8_e4m3fn", "f8e4m3fn", "", "Float8_e4m3fn", kFloating, true)           \
    X(F8E4M3FNUZ, float8_e4m3fnuz, "float8_e4m3fnuz", "f8e4m3fnuz", "", "Float8_e4m3fnuz", kFloating, true) \
    X(F8E5M2, float8_e5m2, "float8_e5m2", "f8e5m2", "", "Float8_e5m2", kFloating, true)                     \
    X(F8E5M2FNUZ, float8_e5m2fnuz, "float8_e5m2fnuz", "f8e5m2fnuz", "", "Float8_e5m2fnuz", kFloating, true) \
    X(F8E8M0FNU, float8_e8m0fnu, "float8_e8m0fnu", "f8e8m0fnu", "", "Float8_e8m0fnu", kFloating, false)

#define MT_ENUMERATOR(D, ...) D,
enum class DType : uint8_t { MT_FOREACH_DTYPE(MT_ENUMERATOR) Count };
#undef MT_ENUMERATOR

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
#define MT_DTYPE_OF(D, T, ...)                   \
    template <>                                  \
    struct DTypeOf<T> {                          \
        static constexpr DType value = DType::D; \
    };
MT_FOREACH_DTYPE(MT_DTYPE_OF)
#undef MT_DTYPE_OF

struct DTypeInfo {
    const char* name;         // PyTorch's: float32
    const char* hlo_name;     // XLA's: f32
    const char* format;       // the buffer protocol's
    uint8_t itemsize;
    Category category;
    bool is_signed;
    const char* torch_class;  // of PyTorch's messages and classes: Float
};

#define MT_FACTS(D, T, name, hlo, format, torch_class, category, is_signed) \
    {name, hlo, format, sizeof(T), category, is_signed, torch_class},
inline constexpr DTypeInfo kDTypes[] = {MT_FOREACH_DTYPE(MT_FACTS)};
#undef MT_FACTS
inline const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }
inline size_t itemsize(DType dtype) { return info(dtype).itemsize; }
inline bool is_floating(DType dtype) { return info(dtype).category == kFloating; }
inline bool is_complex(DType dtype) { return info(dtype).category == kComplex; }
inline bool is_integral(DType dtype) { return info(dtype).category == kInteger; }  // without bool
// Eight bits: elements that are stored, moved and converted, not computed with. The last of all.
constexpr bool is_float8(DType dtype) { return dtype >= DType::F8E4M3FN; }

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
        case DType::BF16:
        case DType::F8E4M3FN:
        case DType::F8E4M3FNUZ:
        case DType::F8E5M2:
        case DType::F8E5M2FNUZ:
        case DType::F8E8M0FNU: return DType::F32;
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
inline const char* torch_type_name(DType dtype) { return info(dtype).torch_class; }

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
