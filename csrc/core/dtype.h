// Element types, their sizes and PyTorch's promotion rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mt {

// Every type of the API has its number from the start; MT_FOREACH_DTYPE lists those that kernels are compiled for.
enum class DType : uint8_t { Bool, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64, C64, C128, Count };

#define MT_FOREACH_DTYPE(X) \
    X(Bool, bool)           \
    X(U8, uint8_t)          \
    X(I32, int32_t)         \
    X(I64, int64_t)         \
    X(F32, float)           \
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
    bool supported;
};

const DTypeInfo& info(DType dtype);
inline size_t itemsize(DType dtype) { return info(dtype).itemsize; }
inline bool is_floating(DType dtype) { return info(dtype).category == 2; }
inline bool is_complex(DType dtype) { return info(dtype).category == 3; }
inline bool is_integral(DType dtype) { return info(dtype).category == 1; }  // without bool

DType default_dtype();
void set_default_dtype(DType dtype);

// The lattice of two tensors' dtypes of the same priority.
DType promote(DType a, DType b);

// PyTorch's result_type: dimensioned tensors, then zero-dimensional ones, then Python scalars; a lower priority
// matters only when its category is higher.
class ResultType {
  public:
    void add_tensor(DType dtype, bool zero_dim) { merge(zero_dim ? zero_ : dim_, dtype); }
    void add_scalar(DType dtype) { merge(scalar_, dtype); }
    DType get() const;

  private:
    static void merge(int& slot, DType dtype) {
        slot = slot < 0 ? static_cast<int>(dtype) : static_cast<int>(promote(static_cast<DType>(slot), dtype));
    }
    int dim_ = -1, zero_ = -1, scalar_ = -1;
};

}  // namespace mt
