// Conversions of elements: between the types of loops, and from and to those that only memory knows. Included by
// loops.cpp, once for each instruction set.
#pragma once

namespace mt::cpu::MT_ISA_NS {
namespace {

// Truncates; what does not fit gives the smallest integer. The clamp comes before the conversion, so nothing is
// undefined.
template <class To, class From> To float_to_int(From x) {
    constexpr From lowest = sizeof(To) == 4 ? From(-2147483648.0) : From(-9223372036854775808.0);
    From inside = x >= lowest && x < -lowest ? x : lowest;
    return static_cast<To>(inside);
}
// Numbers from 2^63 on are moved into int64's range and back; those below 0 wrap around.
template <class From> uint64_t float_to_uint64(From x) {
    constexpr From half = From(9223372036854775808.0);
    bool small = !(x >= half);
    return static_cast<uint64_t>(float_to_int<int64_t>(small ? x : x - half)) ^ (small ? 0 : uint64_t(1) << 63);
}

template <class To, bool to_bool, class From> To convert_one(From x) {
    if constexpr (to_bool) return x != From(0);
    else if constexpr (kIsFloat<From> && __is_same(To, uint8_t)) return static_cast<uint8_t>(float_to_int<int64_t>(x));
    else if constexpr (kIsFloat<From> && __is_same(To, uint64_t)) return float_to_uint64(x);
    else if constexpr (kIsFloat<From> && !kIsFloat<To>) return float_to_int<To>(x);
    else return static_cast<To>(x);
}

template <class From, class To, bool to_bool = false> void convert_loop(void* out, const void* in, int64_t n) {
    auto* r = static_cast<To*>(out);
    auto* x = static_cast<const From*>(in);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = convert_one<To, to_bool>(x[i]);
}

// By name: a file's pragma lets the compiler use the instructions, but does not define __F16C__.
#if MT_VECTOR_BYTES == 64
using FloatVector = __m512;
// With a mask, since the headers of the others make the compiler warn of an undefined value.
constexpr __mmask16 kAll = 0xFFFF;
constexpr int64_t kFloats = 16;
inline FloatVector load_half(const uint16_t* x) {
    return _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
inline void store_half(uint16_t* r, FloatVector x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(r),
                        _mm512_maskz_cvtps_ph(kAll, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif MT_VECTOR_BYTES == 32
using FloatVector = __m256;
constexpr int64_t kFloats = 8;
inline FloatVector load_half(const uint16_t* x) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
inline void store_half(uint16_t* r, FloatVector x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(r), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif
#if MT_VECTOR_BYTES >= 32
typedef uint32_t WordVector __attribute__((vector_size(MT_VECTOR_BYTES)));
typedef uint16_t NarrowVector __attribute__((vector_size(MT_VECTOR_BYTES / 2)));

inline FloatVector load_bfloat16(const uint16_t* x) {
    NarrowVector bits;
    __builtin_memcpy(&bits, x, sizeof bits);
    return reinterpret_cast<FloatVector>(__builtin_convertvector(bits, WordVector) << 16);
}
inline void store_bfloat16(uint16_t* r, FloatVector x) {
    WordVector bits = reinterpret_cast<WordVector>(x);
    WordVector rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    WordVector result = (bits & 0x7FFFFFFF) > 0x7F800000 ? WordVector{} + 0x7FC0 : rounded;
    NarrowVector narrow = __builtin_convertvector(result, NarrowVector);
    __builtin_memcpy(r, &narrow, sizeof narrow);
}
#endif

[[gnu::flatten]] void half_to_float(void* out, const void* in, int64_t n) {
    auto* r = static_cast<float*>(out);
    auto* x = static_cast<const uint16_t*>(in);
    int64_t i = 0;
#if MT_VECTOR_BYTES >= 32
#pragma GCC unroll 4
    for (; i + kFloats <= n; i += kFloats) {
        FloatVector v = load_half(x + i);
        __builtin_memcpy(r + i, &v, sizeof v);
    }
#endif
    for (; i < n; ++i) r[i] = float_of_half(x[i]);
}
[[gnu::flatten]] void float_to_half(void* out, const void* in, int64_t n) {
    auto* r = static_cast<uint16_t*>(out);
    auto* x = static_cast<const float*>(in);
    int64_t i = 0;
#if MT_VECTOR_BYTES >= 32
#pragma GCC unroll 4
    for (; i + kFloats <= n; i += kFloats) {
        FloatVector v;
        __builtin_memcpy(&v, x + i, sizeof v);
        store_half(r + i, v);
    }
#endif
    for (; i < n; ++i) r[i] = half_bits(x[i]);
}
[[gnu::flatten]] void bfloat16_to_float(void* out, const void* in, int64_t n) {
    auto* r = static_cast<float*>(out);
    auto* x = static_cast<const uint16_t*>(in);
    int64_t i = 0;
#if MT_VECTOR_BYTES >= 32
#pragma GCC unroll 4
    for (; i + kFloats <= n; i += kFloats) {
        FloatVector v = load_bfloat16(x + i);
        __builtin_memcpy(r + i, &v, sizeof v);
    }
#endif
#pragma GCC ivdep
    for (; i < n; ++i) r[i] = float_of_bfloat16(x[i]);
}
[[gnu::flatten]] void float_to_bfloat16(void* out, const void* in, int64_t n) {
    auto* r = static_cast<uint16_t*>(out);
    auto* x = static_cast<const float*>(in);
    int64_t i = 0;
#if MT_VECTOR_BYTES >= 32
#pragma GCC unroll 4
    for (; i + kFloats <= n; i += kFloats) {
        FloatVector v;
        __builtin_memcpy(&v, x + i, sizeof v);
        store_bfloat16(r + i, v);
    }
#endif
#pragma GCC ivdep
    for (; i < n; ++i) r[i] = bfloat16_bits(x[i]);
}

template <class T> void float8_to_float(void* out, const void* in, int64_t n) {
    auto* r = static_cast<float*>(out);
    auto* x = static_cast<const uint8_t*>(in);
    for (int64_t i = 0; i < n; ++i) r[i] = kFloat8Values<T>[x[i]];
}
template <class T> void float_to_float8(void* out, const void* in, int64_t n) {
    auto* r = static_cast<uint8_t*>(out);
    auto* x = static_cast<const float*>(in);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = float8_bits<T>(x[i]);
}

#if MT_VECTOR_BYTES >= 32
struct Half {
    static FloatVector load(const uint16_t* x) { return load_half(x); }
    static void store(uint16_t* r, FloatVector x) { store_half(r, x); }
    static float widen(uint16_t x) { return float_of_half(x); }
    static uint16_t narrow(float x) { return half_bits(x); }
};
struct Bfloat16 {
    static FloatVector load(const uint16_t* x) { return load_bfloat16(x); }
    static void store(uint16_t* r, FloatVector x) { store_bfloat16(r, x); }
    static float widen(uint16_t x) { return float_of_bfloat16(x); }
    static uint16_t narrow(float x) { return bfloat16_bits(x); }
};

// Elements as they are stored, computed in float32 in registers.
template <class Op, class Narrow>
[[gnu::flatten]] bool narrow_binary_loop(void* out, const void* lhs, const void* rhs, int64_t n, unsigned scalars) {
    auto* r = static_cast<uint16_t*>(out);
    auto *a = static_cast<const uint16_t*>(lhs), *b = static_cast<const uint16_t*>(rhs);
    int64_t i = 0;
    if (scalars == 0) {
#pragma GCC unroll 4
        for (; i + kFloats <= n; i += kFloats)
            Narrow::store(r + i, Op::of_vectors(Narrow::load(a + i), Narrow::load(b + i)));
    } else {
        // Minus 0 keeps -0.
        FloatVector x = Narrow::widen(*a) - FloatVector{}, y = Narrow::widen(*b) - FloatVector{};
        for (; i + kFloats <= n; i += kFloats)
            Narrow::store(r + i,
                          Op::of_vectors(scalars & 1 ? x : Narrow::load(a + i), scalars & 2 ? y : Narrow::load(b + i)));
    }
    for (; i < n; ++i) {
        float x = Narrow::widen(a[scalars & 1 ? 0 : i]), y = Narrow::widen(b[scalars & 2 ? 0 : i]);
        r[i] = Narrow::narrow(Op::apply(x, y));
    }
    return true;
}
#endif

// Complex numbers lie as pairs of parts.
template <class T> void real_part(void* out, const void* in, int64_t n) {
    auto* r = static_cast<T*>(out);
    auto* x = static_cast<const T*>(in);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = x[2 * i];
}
template <class T> void with_zero_imaginary(void* out, const void* in, int64_t n) {
    auto* r = static_cast<T*>(out);
    auto* x = static_cast<const T*>(in);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
        r[2 * i] = x[i];
        r[2 * i + 1] = T(0);
    }
}
template <class From, class To> void complex_to_complex(void* out, const void* in, int64_t n) {
    convert_loop<From, To>(out, in, 2 * n);
}
template <class T> void complex_to_bool(void* out, const void* in, int64_t n) {
    auto* r = static_cast<uint8_t*>(out);
    auto* x = static_cast<const T*>(in);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = (x[2 * i] != T(0)) | (x[2 * i + 1] != T(0));
}

// By the columns of the tables: bool, uint8, int32, int64, float32, float64, uint64, complex64, complex128.
#define MT_CONVERT(From)                                                                         \
    convert_loop<From, uint8_t, true>, convert_loop<From, uint8_t>, convert_loop<From, int32_t>, \
        convert_loop<From, int64_t>, convert_loop<From, float>, convert_loop<From, double>

constexpr ConvertFn kConvert[kCompiledDtypes][kCompiledDtypes] = {
    {MT_CONVERT(uint8_t), convert_loop<uint8_t, int64_t>},
    {MT_CONVERT(uint8_t), convert_loop<uint8_t, int64_t>},
    {MT_CONVERT(int32_t), convert_loop<int32_t, int64_t>},
    {MT_CONVERT(int64_t), convert_loop<int64_t, int64_t>},
    {MT_CONVERT(float), convert_loop<float, uint64_t>, with_zero_imaginary<float>},
    {MT_CONVERT(double), convert_loop<double, uint64_t>, nullptr, with_zero_imaginary<double>},
    {convert_loop<int64_t, uint8_t, true>, convert_loop<int64_t, uint8_t>, convert_loop<int64_t, int32_t>,
     convert_loop<int64_t, int64_t>, convert_loop<uint64_t, float>, convert_loop<uint64_t, double>},
    {complex_to_bool<float>, nullptr, nullptr, nullptr, real_part<float>, nullptr, nullptr, nullptr,
     complex_to_complex<float, double>},
    {complex_to_bool<double>, nullptr, nullptr, nullptr, nullptr, real_part<double>, nullptr,
     complex_to_complex<double, float>, nullptr},
};
#undef MT_CONVERT

// By dtype: bool, uint8, int8, uint16, int16, uint32, int32, uint64, int64, float16, bfloat16, ...
constexpr ConvertFn kLoad[] = {nullptr,
                               nullptr,
                               convert_loop<int8_t, int32_t>,
                               convert_loop<uint16_t, int32_t>,
                               convert_loop<int16_t, int32_t>,
                               convert_loop<uint32_t, int64_t>,
                               nullptr,
                               nullptr,
                               nullptr,
                               half_to_float,
                               bfloat16_to_float,
                               nullptr,
                               nullptr,
                               nullptr,
                               nullptr,
                               float8_to_float<float8_e4m3fn>,
                               float8_to_float<float8_e4m3fnuz>,
                               float8_to_float<float8_e5m2>,
                               float8_to_float<float8_e5m2fnuz>,
                               float8_to_float<float8_e8m0fnu>};
constexpr ConvertFn kStore[] = {nullptr,
                                nullptr,
                                convert_loop<int32_t, int8_t>,
                                convert_loop<int32_t, uint16_t>,
                                convert_loop<int32_t, int16_t>,
                                convert_loop<int64_t, uint32_t>,
                                nullptr,
                                nullptr,
                                nullptr,
                                float_to_half,
                                float_to_bfloat16,
                                nullptr,
                                nullptr,
                                nullptr,
                                nullptr,
                                float_to_float8<float8_e4m3fn>,
                                float_to_float8<float8_e4m3fnuz>,
                                float_to_float8<float8_e5m2>,
                                float_to_float8<float8_e5m2fnuz>,
                                float_to_float8<float8_e8m0fnu>};

}  // namespace
}  // namespace mt::cpu::MT_ISA_NS
