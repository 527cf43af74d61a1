// The tables of inner loops, compiled once for each instruction set.
#include "kernels/cpu/elementwise/loops.h"
#include "core/float8.h"

#include <limits>

// What comes after it is for one instruction set.
#include "kernels/cpu/loops/target.h"
// Which the arithmetic needs.
#include "kernels/cpu/math/functions.h"
// functions.h comes first.
#include "kernels/cpu/elementwise/ops.h"
// And both before this.
#include "kernels/cpu/elementwise/conversions.h"

namespace mt::cpu::MT_ISA_NS {
namespace {

namespace math = mt::MT_ISA_NS::math;

struct Exp {
    template <class T> static T apply(T x) { return math::exp(x); }
};
struct Log {
    template <class T> static T apply(T x) { return math::log(x); }
};
struct Tanh {
    template <class T> static T apply(T x) { return math::tanh(x); }
};
struct Sigmoid {
    template <class T> static T apply(T x) { return math::sigmoid(x); }
};

// An input may be the very array that is written: no element depends on another one's result, which `ivdep` says.

template <class Op, class T> void unary_loop(void* out, const void* in, int64_t n) {
    auto* r = static_cast<decltype(Op::apply(T{}))*>(out);
    auto* x = static_cast<const T*>(in);
    if (n == 1) {
        *r = Op::apply(*x);
        return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(x[i]);
}

template <class Op, class T> [[gnu::noinline]] bool binary_loop(void* out, const void* lhs, const void* rhs, int64_t n,
                                                                unsigned scalars) {
    auto* r = static_cast<decltype(Op::apply(T{}, T{}))*>(out);
    auto* a = static_cast<const T*>(lhs);
    auto* b = static_cast<const T*>(rhs);
    if (n == 1) {
        *r = Op::apply(*a, *b);
        return true;
    }
    if (scalars == 0) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(a[i], b[i]);
    } else if (scalars == 2) {
        T y = *b;
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(a[i], y);
    } else {
        T x = *a;
        int64_t step = scalars == 1;
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(x, b[step ? i : 0]);
    }
    return true;
}

// The same of the operands the other way round: a > b is b < a.
template <class Op, class T> bool swapped_loop(void* out, const void* lhs, const void* rhs, int64_t n,
                                               unsigned scalars) {
    return binary_loop<Op, T>(out, rhs, lhs, n, scalars == 1 ? 2u : scalars == 2 ? 1u : scalars);
}

// Ops that are a call or an integer division for each element: one loop for every form of the inputs.
template <class Op, class T> bool slow_binary_loop(void* out, const void* lhs, const void* rhs, int64_t n,
                                                   unsigned scalars) {
    auto* r = static_cast<T*>(out);
    auto* a = static_cast<const T*>(lhs);
    auto* b = static_cast<const T*>(rhs);
    int64_t step_a = !(scalars & 1), step_b = !(scalars & 2);
    for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(a[i * step_a], b[i * step_b]);
    return true;
}

template <class Op, class T> bool integer_division_loop(void* out, const void* lhs, const void* rhs, int64_t n,
                                                        unsigned scalars) {
    auto* r = static_cast<T*>(out);
    auto* a = static_cast<const T*>(lhs);
    auto* b = static_cast<const T*>(rhs);
    int64_t step_a = !(scalars & 1), step_b = !(scalars & 2);
    bool by_zero = false;
    for (int64_t i = 0; i < n; ++i) {
        T divisor = b[i * step_b];
        by_zero |= divisor == T(0);
        r[i] = divisor == T(0) ? T(0) : Op::apply(a[i * step_a], divisor);
    }
    return !by_zero;
}

template <class T> void where_loop(void* out, const void* condition, const void* x, const void* y, int64_t n,
                                   unsigned scalars) {
    auto* r = static_cast<T*>(out);
    auto* c = static_cast<const uint8_t*>(condition);
    auto* a = static_cast<const T*>(x);
    auto* b = static_cast<const T*>(y);
    if (scalars & 1) {  // one condition for all
        const T* chosen = *c ? a : b;
        bool single = scalars & (*c ? 2 : 4);
        T value = *chosen;
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) r[i] = single ? value : chosen[i];
        return;
    }
    T va = *a, vb = *b;
    switch (scalars >> 1) {
        case 0:
#pragma GCC ivdep
            for (int64_t i = 0; i < n; ++i) {
                T from_a = a[i], from_b = b[i];
                r[i] = c[i] ? from_a : from_b;
            }
            break;
        case 1:
#pragma GCC ivdep
            for (int64_t i = 0; i < n; ++i) {
                T from_b = b[i];
                r[i] = c[i] ? va : from_b;
            }
            break;
        case 2:
#pragma GCC ivdep
            for (int64_t i = 0; i < n; ++i) {
                T from_a = a[i];
                r[i] = c[i] ? from_a : vb;
            }
            break;
        default:
#pragma GCC ivdep
            for (int64_t i = 0; i < n; ++i) r[i] = c[i] ? va : vb;
    }
}

// min(max(x, lo), hi) for bounds that are no NaN. An equal zero of the other sign gives way to a bound of +0 below, and
// of -0 above; then the bounds need no look at the bits of each element.
template <bool zero_below, bool zero_above, class T>
void float_clamp_loop(T* r, const T* x, T lo, T hi, int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
        T v = x[i];
        v = (zero_below ? v <= lo : v < lo) ? lo : v;
        r[i] = (zero_above ? v >= hi : v > hi) ? hi : v;
    }
}

template <class T> void clamp_loop(void* out, const void* in, const void* low, const void* high, int64_t n) {
    auto* r = static_cast<T*>(out);
    auto* x = static_cast<const T*>(in);
    T lo = *static_cast<const T*>(low), hi = *static_cast<const T*>(high);
    if constexpr (kIsFloat<T>) {
        if (lo == lo && hi == hi) {
            bool below = lo == T(0) && !__builtin_signbit(lo), above = hi == T(0) && __builtin_signbit(hi);
            auto* loop = below   ? above ? float_clamp_loop<true, true, T> : float_clamp_loop<true, false, T>
                         : above ? float_clamp_loop<false, true, T>
                                 : float_clamp_loop<false, false, T>;
            return loop(r, x, lo, hi, n);
        }
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Minimum::apply(Maximum::apply(x[i], lo), hi);
}

// One vector to memory that is aligned to its size.
template <class V> inline void stream_vector(void* to, V value) {
#if MT_VECTOR_BYTES == 64
    _mm512_stream_si512(static_cast<__m512i*>(to), reinterpret_cast<__m512i>(value));
#elif MT_VECTOR_BYTES == 32
    _mm256_stream_si256(static_cast<__m256i*>(to), reinterpret_cast<__m256i>(value));
#elif defined(__SSE2__)
    _mm_stream_si128(static_cast<__m128i*>(to), reinterpret_cast<__m128i>(value));
#else
    *static_cast<V*>(to) = value;
#endif
}

template <class V, class T> inline V load_vector(const T* from) {
    V value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}

template <class Op, class T>
bool stream_binary_loop(void* out, const void* lhs, const void* rhs, int64_t n, unsigned scalars) {
    typedef T Vector __attribute__((vector_size(MT_VECTOR_BYTES)));
    constexpr int64_t width = MT_VECTOR_BYTES / sizeof(T);
    auto* r = static_cast<T*>(out);
    auto* a = static_cast<const T*>(lhs);
    auto* b = static_cast<const T*>(rhs);
    int64_t step_a = !(scalars & 1), step_b = !(scalars & 2);
    int64_t i = 0;
    for (; i < n && reinterpret_cast<uintptr_t>(r + i) % MT_VECTOR_BYTES; ++i)
        r[i] = Op::apply(a[i * step_a], b[i * step_b]);
    Vector x = *a - Vector{}, y = *b - Vector{};
    if (scalars == 0) {
        for (; i + width <= n; i += width)
            stream_vector(r + i, Op::of_vectors(load_vector<Vector>(a + i), load_vector<Vector>(b + i)));
    } else if (scalars == 2) {
        for (; i + width <= n; i += width) stream_vector(r + i, Op::of_vectors(load_vector<Vector>(a + i), y));
    } else if (scalars == 1) {
        for (; i + width <= n; i += width) stream_vector(r + i, Op::of_vectors(x, load_vector<Vector>(b + i)));
    } else {
        for (; i + width <= n; i += width) stream_vector(r + i, Op::of_vectors(x, y));
    }
    for (; i < n; ++i) r[i] = Op::apply(a[i * step_a], b[i * step_b]);
    return true;
}

}  // namespace

// Columns: bool, uint8, int32, int64, float32, float64, uint64; complex numbers are elsewhere. bool is computed as 0 or
// 1 in a byte. Signed and unsigned integers of a width share what is the same of their bits.
#define MT_FLOATS(L, Op) nullptr, nullptr, nullptr, nullptr, L<Op, float>, L<Op, double>
#define MT_INTS(L, Op) L<Op, uint8_t>, L<Op, int32_t>, L<Op, int64_t>
#define MT_NUMBERS(L, Op) nullptr, MT_INTS(L, Op), L<Op, float>, L<Op, double>, L<Op, uint64_t>
#define MT_ALL(L, Op) L<Op, uint8_t>, MT_INTS(L, Op), L<Op, float>, L<Op, double>, L<Op, uint64_t>
#define MT_BITS(L, Op) nullptr, MT_INTS(L, Op), nullptr, nullptr, L<Op, int64_t>
#define MT_EQUAL(Op)                                                                                     \
    binary_loop<Op, uint8_t>, MT_INTS(binary_loop, Op), binary_loop<Op, float>, binary_loop<Op, double>, \
        binary_loop<Op, int64_t>
#define MT_BOOL(L, Op) L<Op, uint8_t>, nullptr, nullptr, nullptr, nullptr, nullptr
#define MT_LOGIC(Op) binary_loop<Op, uint8_t>, MT_INTS(binary_loop, Op), nullptr, nullptr, binary_loop<Op, int64_t>
#define MT_WRAPPING(OfBool, Op)                                                                              \
    binary_loop<OfBool, uint8_t>, MT_INTS(binary_loop, Op), binary_loop<Op, float>, binary_loop<Op, double>, \
        binary_loop<Op, int64_t>
#define MT_QUOTIENT(Op)                                                                                     \
    nullptr, MT_INTS(integer_division_loop, Op), slow_binary_loop<Op, float>, slow_binary_loop<Op, double>, \
        integer_division_loop<Op, uint64_t>

namespace {

constexpr const char* kNames[] = {
#define MT_UNARY(functor, op, ...) op,
#define MT_BINARY(functor, op, ...) op,
#include "kernels/cpu/elementwise/rows.h"
};
static_assert(
    [] {
        for (const char* const& name : kNames)
            for (const char* const* other = kNames; other != &name; ++other)
                if (__builtin_strcmp(*other, name) == 0) return false;
        return true;
    }(),
    "every op has one row");

// What the functor of a unary loop gives is what the row says: a byte for a test.
#define MT_UNARY(functor, op, result, ...)                                                                        \
    static_assert(__is_same(decltype(functor::apply(1.0f)), uint8_t) == (LoopResult::result == LoopResult::Bool), \
                  "what " op " gives, and what its row says");
#include "kernels/cpu/elementwise/rows.h"

}  // namespace

extern constinit const ElementwiseTable elementwise_table = {
    .unary =
        {
#define MT_UNARY(functor, op, result, inference, kernel, takes, dtypes) {MT_##dtypes(unary_loop, functor)},
#define MT_UNARY_LOOP(functor, dtypes) {MT_##dtypes(unary_loop, functor)},
#include "kernels/cpu/elementwise/rows.h"
        },
    .binary =
        {
#define MT_BINARY(functor, op, result, inference, kernel, takes, ...) {__VA_ARGS__},
#include "kernels/cpu/elementwise/rows.h"
        },
    .where = {nullptr, where_loop<uint8_t>, where_loop<uint16_t>, nullptr, where_loop<uint32_t>, nullptr, nullptr,
              nullptr, where_loop<uint64_t>, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
              where_loop<complex128>},
    .clamp = {nullptr, clamp_loop<uint8_t>, clamp_loop<int32_t>, clamp_loop<int64_t>, clamp_loop<float>,
              clamp_loop<double>, clamp_loop<uint64_t>},
    .convert = kConvert,
    .load = kLoad,
    .store = kStore,
    .stream_binary =
        {
#define MT_ARITHMETIC(functor, ...) {stream_binary_loop<functor, float>, stream_binary_loop<functor, double>},
#include "kernels/cpu/elementwise/rows.h"
        },
#if MT_VECTOR_BYTES >= 32
    .narrow_binary =
        {
#define MT_ARITHMETIC(functor, ...) {narrow_binary_loop<functor, Half>, narrow_binary_loop<functor, Bfloat16>},
#include "kernels/cpu/elementwise/rows.h"
        },
#else
    .narrow_binary = {},
#endif
};

#undef MT_FLOATS
#undef MT_INTS
#undef MT_NUMBERS
#undef MT_ALL
#undef MT_BITS
#undef MT_EQUAL
#undef MT_BOOL
#undef MT_LOGIC
#undef MT_WRAPPING
#undef MT_QUOTIENT

}  // namespace mt::cpu::MT_ISA_NS
