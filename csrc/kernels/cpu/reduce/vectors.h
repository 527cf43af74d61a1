// Vectors of MT_VECTOR_BYTES bytes, and the operations of the reductions on them, for files that are compiled once for
// each instruction set: after loops/target.h.

namespace mt::cpu::MT_ISA_NS {
namespace {

#define MT_INLINE inline __attribute__((always_inline))

template <class T>
struct VecOf {
    typedef T type __attribute__((vector_size(MT_VECTOR_BYTES)));
};
template <class T>
using Vec = typename VecOf<T>::type;
template <class T>
inline constexpr int kWidth = MT_VECTOR_BYTES / static_cast<int>(sizeof(T));

// The signed integer of so many bytes, and those of T's size. (Types alone: no code is shared with other files.)
template <size_t Bytes>
using IntOf = std::conditional_t<Bytes == 1, int8_t, std::conditional_t<Bytes == 4, int32_t, int64_t>>;
template <class T>
using Int = IntOf<sizeof(T)>;
template <class T>
using Uint = std::make_unsigned_t<Int<T>>;

template <class T>
inline constexpr bool kFloat = __is_same(T, float) || __is_same(T, double);

template <class T>
MT_INLINE Vec<T> load(const T* p) {
    Vec<T> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
template <class T>
MT_INLINE void store(T* p, Vec<T> v) {
    __builtin_memcpy(p, &v, sizeof v);
}
template <class T>
MT_INLINE Vec<T> splat(T x) {
    return x - Vec<T>{};
}

// The first n < kWidth elements; the others are `fill`.
template <class T>
MT_INLINE Vec<T> load_partial(const T* p, int n, T fill) {
    Vec<T> v = splat<T>(fill);
#if MT_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4)
        v = (Vec<T>)_mm512_mask_loadu_epi32((__m512i)v, static_cast<__mmask16>((1u << n) - 1), p);
    else if constexpr (sizeof(T) == 8)
        v = (Vec<T>)_mm512_mask_loadu_epi64((__m512i)v, static_cast<__mmask8>((1u << n) - 1), p);
    else v = (Vec<T>)_mm512_mask_loadu_epi8((__m512i)v, (uint64_t(1) << n) - 1, p);
#elif MT_VECTOR_BYTES == 32
    if constexpr (sizeof(T) == 4) {
        __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        v = (Vec<T>)_mm256_blendv_epi8((__m256i)v, _mm256_maskload_epi32((const int*)p, mask), mask);
    } else if constexpr (sizeof(T) == 8) {
        __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
        v = (Vec<T>)_mm256_blendv_epi8((__m256i)v, _mm256_maskload_epi64((const long long*)p, mask), mask);
    } else {
        for (int i = 0; i < n; ++i) v[i] = p[i];
    }
#else
    for (int i = 0; i < n; ++i) v[i] = p[i];
#endif
    return v;
}
template <class T>
MT_INLINE void store_partial(T* p, Vec<T> v, int n) {
#if MT_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4) _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << n) - 1), (__m512i)v);
    else if constexpr (sizeof(T) == 8) _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << n) - 1), (__m512i)v);
    else _mm512_mask_storeu_epi8(p, (uint64_t(1) << n) - 1, (__m512i)v);
#elif MT_VECTOR_BYTES == 32
    if constexpr (sizeof(T) == 4) {
        __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        _mm256_maskstore_epi32((int*)p, mask, (__m256i)v);
    } else if constexpr (sizeof(T) == 8) {
        __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
        _mm256_maskstore_epi64((long long*)p, mask, (__m256i)v);
    } else {
        for (int i = 0; i < n; ++i) p[i] = v[i];
    }
#else
    for (int i = 0; i < n; ++i) p[i] = v[i];
#endif
}

// Lane l of the result is lane (l + W) % width.
template <int W, class T>
MT_INLINE Vec<T> rotate(Vec<T> v) {
    Vec<Int<T>> index;
    for (int i = 0; i < kWidth<T>; ++i) index[i] = static_cast<Int<T>>((i + W) % kWidth<T>);
    return __builtin_shuffle(v, index);
}

// The first lane of a comparison's result that holds, or kWidth<T> if none does.
template <class T>
MT_INLINE int first_true(Vec<T> mask) {
#if MT_VECTOR_BYTES == 64
    uint64_t bits;
    if constexpr (sizeof(T) == 4) bits = _mm512_movepi32_mask((__m512i)mask);
    else if constexpr (sizeof(T) == 8) bits = _mm512_movepi64_mask((__m512i)mask);
    else bits = _mm512_movepi8_mask((__m512i)mask);
    return bits ? __builtin_ctzll(bits) : kWidth<T>;
#elif MT_VECTOR_BYTES == 32
    unsigned bits;
    if constexpr (sizeof(T) == 4) bits = static_cast<unsigned>(_mm256_movemask_ps((__m256)mask));
    else if constexpr (sizeof(T) == 8) bits = static_cast<unsigned>(_mm256_movemask_pd((__m256d)mask));
    else bits = static_cast<unsigned>(_mm256_movemask_epi8((__m256i)mask));
    return bits ? __builtin_ctz(bits) : kWidth<T>;
#else
    int i = 0;
    while (i < kWidth<T> && !mask[i]) ++i;
    return i;
#endif
}

// Transposes a square of kWidth<T> vectors: exchanges ever larger blocks across the diagonal.
template <class T, int Step = 1>
MT_INLINE void transpose(Vec<T> (&v)[kWidth<T>]) {
    constexpr int W = kWidth<T>;
    if constexpr (Step < W) {
        Vec<Int<T>> low, high;
        for (int j = 0; j < W; ++j) {
            low[j] = static_cast<Int<T>>(j & Step ? W + j - Step : j);
            high[j] = static_cast<Int<T>>(j & Step ? W + j : j + Step);
        }
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
            if (i & Step) continue;
            Vec<T> a = v[i], b = v[i + Step];
            v[i] = __builtin_shuffle(a, b, low);
            v[i + Step] = __builtin_shuffle(a, b, high);
        }
        transpose<T, Step * 2>(v);
    }
}

// The ops: In elements map to Acc accumulators that combine; fill() maps to the identity.

template <class T>
struct Add {
    using In = T;
    using Acc = T;
    static constexpr T fill() { return T(0); }
    static MT_INLINE Vec<T> map(Vec<T> v) { return v; }
    static MT_INLINE Vec<T> combine(Vec<T> a, Vec<T> b) { return a + b; }
};

template <class T>
struct Mul {
    using In = T;
    using Acc = T;
    static constexpr T fill() { return T(1); }
    static MT_INLINE Vec<T> map(Vec<T> v) { return v; }
    static MT_INLINE Vec<T> combine(Vec<T> a, Vec<T> b) { return a * b; }
};

// Sums of functions of the elements: NaN as 0, magnitudes, squares.
template <class T>
struct AddFinite : Add<T> {
    static MT_INLINE Vec<T> map(Vec<T> v) { return v == v ? v : Vec<T>{}; }
};
template <class T>
struct AddMagnitude : Add<T> {
    static MT_INLINE Vec<T> map(Vec<T> v) { return (Vec<T>)((Vec<Int<T>>)v & ~splat<Int<T>>(kSignBit)); }
    static constexpr Int<T> kSignBit = sizeof(T) == 4 ? static_cast<Int<T>>(INT32_MIN) : static_cast<Int<T>>(INT64_MIN);
};
template <class T>
struct AddSquare : Add<T> {
    static MT_INLINE Vec<T> map(Vec<T> v) { return v * v; }
};

// Floating-point numbers are compared through integers of the same order (-0 before +0); NaN maps to the extreme. For
// Arg, the zeros are equal.
template <class T, bool Max, bool Arg = false>
struct Extreme {
    using In = T;
    using Acc = T;
    static constexpr T fill() {
        if constexpr (__is_same(T, uint8_t)) return Max ? 0 : 255;
        else if constexpr (__is_same(T, uint64_t)) return Max ? 0 : UINT64_MAX;
        else if constexpr (sizeof(T) == 4) return Max ? INT32_MIN : INT32_MAX;
        else return Max ? INT64_MIN : INT64_MAX;
    }
    static MT_INLINE Vec<T> map(Vec<T> v) { return v; }
    static MT_INLINE Vec<T> combine(Vec<T> a, Vec<T> b) { return Max ? (a > b ? a : b) : (a < b ? a : b); }
};

// What Extreme of floating-point numbers needs to work on their bits. As a signed integer the largest is the largest
// number unless it's negative (`high`); as an unsigned one it's the most negative number if there is one (`most`).
// Among negative numbers the largest is the least as an unsigned integer, and among the others the least is so as a
// signed one (`last`). NaN of either sign lies beyond the infinity.
template <class T, bool Max, bool Arg>
struct BitExtremes {};
template <class T, bool Max, bool Arg>
    requires(kFloat<T> &&
             (MT_VECTOR_BYTES == 64 || (MT_VECTOR_BYTES == 32 && sizeof(T) == 4)))  // which have these instructions
struct BitExtremes<T, Max, Arg> {
    using Signed = Int<T>;
    using Unsigned = Uint<T>;
    using High = Extreme<Signed, true>;
    using Most = Extreme<Unsigned, true>;
    using Last = Extreme<std::conditional_t<Max, Unsigned, Signed>, false>;

    static Signed key_of_bits(Signed high, Unsigned most, Signed last) {
        constexpr Unsigned sign = Unsigned(1) << (sizeof(T) * 8 - 1);
        constexpr auto infinity = __builtin_bit_cast(Unsigned, static_cast<T>(__builtin_inf()));
        if (most > (infinity | sign) || high > static_cast<Signed>(infinity))
            return Max ? static_cast<Signed>(~sign) : static_cast<Signed>(sign);
        bool negative = Max ? high < 0 : most >= sign;
        if (!negative) return Max ? high : last;
        Unsigned bits = Max ? static_cast<Unsigned>(last) : most;
        if (Arg && bits == sign) return 0;
        return static_cast<Signed>(bits ^ ~sign);
    }
};

template <class T, bool Max, bool Arg>
    requires kFloat<T>
struct Extreme<T, Max, Arg> : BitExtremes<T, Max, Arg> {
    using In = T;
    using Acc = Int<T>;
    static constexpr Acc kMagnitude = sizeof(T) == 4 ? static_cast<Acc>(INT32_MAX) : static_cast<Acc>(INT64_MAX);
    static constexpr Acc kNan = Max ? kMagnitude : -kMagnitude - 1;
    static constexpr T fill() { return Max ? -static_cast<T>(__builtin_inf()) : static_cast<T>(__builtin_inf()); }
    static MT_INLINE Vec<Acc> map(Vec<T> v) {
        if constexpr (Arg) v = v + splat<T>(T(0));
        auto bits = (Vec<Acc>)v;
        bits ^= (bits >> (sizeof(T) * 8 - 1)) & splat<Acc>(kMagnitude);
        return v != v ? splat<Acc>(kNan) : bits;
    }
    static MT_INLINE Vec<Acc> combine(Vec<Acc> a, Vec<Acc> b) { return Max ? (a > b ? a : b) : (a < b ? a : b); }
    static void unmap(void* out, int64_t n) {
        auto* keys = static_cast<Acc*>(out);
        for (int64_t i = 0; i < n; ++i) {
            Acc key = keys[i];
            Acc quiet = __builtin_bit_cast(Acc, static_cast<T>(__builtin_nan("")));
            keys[i] = key == kNan ? quiet : key ^ ((key >> (sizeof(T) * 8 - 1)) & kMagnitude);
        }
    }
};

// The identity as an accumulator.
template <class Op>
MT_INLINE Vec<typename Op::Acc> identity() {
    return Op::map(splat<typename Op::In>(Op::fill()));
}

}  // namespace
}  // namespace mt::cpu::MT_ISA_NS
