// A number as an element of any dtype, and back.
#include <cstring>

#include "core/float8.h"
#include "dispatch/op.h"

namespace mt {

namespace {

// Truncates; what does not fit gives the smallest integer, as in docs/numerics.md.
template <class T>
T truncated(double x) {
    constexpr double lowest = sizeof(T) == 4 ? -2147483648.0 : -9223372036854775808.0;
    return static_cast<T>(x >= lowest && x < -lowest ? x : lowest);
}

int64_t wide(const Scalar& value) { return value.tag >= Scalar::Float ? truncated<int64_t>(value.f) : value.i; }
int32_t narrow(const Scalar& value) {
    return value.tag >= Scalar::Float ? truncated<int32_t>(value.f) : static_cast<int32_t>(value.i);
}
uint64_t unsigned_wide(const Scalar& value) {
    if (value.tag < Scalar::Float || !(value.f >= 9223372036854775808.0)) return static_cast<uint64_t>(wide(value));
    return static_cast<uint64_t>(truncated<int64_t>(value.f - 9223372036854775808.0)) ^ (uint64_t(1) << 63);
}
float single(const Scalar& value) {
    return value.tag >= Scalar::Float ? static_cast<float>(value.f) : static_cast<float>(value.i);
}
float imaginary(const Scalar& value) { return static_cast<float>(value.imag); }

template <class T>
void put(void* out, T element) {
    std::memcpy(out, &element, sizeof element);
}
template <class T>
T take(const void* data) {
    T element;
    std::memcpy(&element, data, sizeof element);
    return element;
}

template <class T>
Scalar float8_scalar(const void* data) {
    return Scalar::of(double{float_of_float8<T>(take<uint8_t>(data))});
}

}  // namespace

void store_scalar(const Scalar& value, DType dtype, void* out) {
    switch (dtype) {
        case DType::Bool: return put(out, static_cast<uint8_t>(value.as_double() != 0.0 || value.imag != 0.0));
        case DType::U8: return put(out, static_cast<uint8_t>(wide(value)));
        case DType::I8: return put(out, static_cast<int8_t>(narrow(value)));
        case DType::U16: return put(out, static_cast<uint16_t>(narrow(value)));
        case DType::I16: return put(out, static_cast<int16_t>(narrow(value)));
        case DType::U32: return put(out, static_cast<uint32_t>(wide(value)));
        case DType::I32: return put(out, narrow(value));
        case DType::U64: return put(out, unsigned_wide(value));
        case DType::I64: return put(out, wide(value));
        case DType::F16: return put(out, half_bits(single(value)));
        case DType::BF16: return put(out, bfloat16_bits(single(value)));
        case DType::F32: return put(out, single(value));
        case DType::F64: return put(out, value.as_double());
        case DType::F8E4M3FN: return put(out, float8_bits<float8_e4m3fn>(single(value)));
        case DType::F8E4M3FNUZ: return put(out, float8_bits<float8_e4m3fnuz>(single(value)));
        case DType::F8E5M2: return put(out, float8_bits<float8_e5m2>(single(value)));
        case DType::F8E5M2FNUZ: return put(out, float8_bits<float8_e5m2fnuz>(single(value)));
        case DType::F8E8M0FNU: return put(out, float8_bits<float8_e8m0fnu>(single(value)));
        case DType::C64: return put(out, complex64{single(value), imaginary(value)});
        case DType::C128: return put(out, complex128{value.as_double(), value.imag});
        case DType::Count: break;
    }
}

Scalar load_scalar(const void* data, DType dtype) {
    switch (dtype) {
        case DType::Bool: return Scalar::of(take<uint8_t>(data) != 0);
        case DType::U8: return Scalar::of(int64_t{take<uint8_t>(data)});
        case DType::I8: return Scalar::of(int64_t{take<int8_t>(data)});
        case DType::U16: return Scalar::of(int64_t{take<uint16_t>(data)});
        case DType::I16: return Scalar::of(int64_t{take<int16_t>(data)});
        case DType::U32: return Scalar::of(int64_t{take<uint32_t>(data)});
        case DType::I32: return Scalar::of(int64_t{take<int32_t>(data)});
        case DType::U64:
        case DType::I64: return Scalar::of(take<int64_t>(data));
        case DType::F16: return Scalar::of(double{float_of_half(take<uint16_t>(data))});
        case DType::BF16: return Scalar::of(double{float_of_bfloat16(take<uint16_t>(data))});
        case DType::F8E4M3FN: return float8_scalar<float8_e4m3fn>(data);
        case DType::F8E4M3FNUZ: return float8_scalar<float8_e4m3fnuz>(data);
        case DType::F8E5M2: return float8_scalar<float8_e5m2>(data);
        case DType::F8E5M2FNUZ: return float8_scalar<float8_e5m2fnuz>(data);
        case DType::F8E8M0FNU: return float8_scalar<float8_e8m0fnu>(data);
        case DType::F32: return Scalar::of(double{take<float>(data)});
        case DType::F64: return Scalar::of(take<double>(data));
        case DType::C64: {
            auto z = take<complex64>(data);
            return Scalar::of(double{z.re}, double{z.im});
        }
        case DType::C128: {
            auto z = take<complex128>(data);
            return Scalar::of(z.re, z.im);
        }
        case DType::Count: break;
    }
    return {};
}

}  // namespace mt
