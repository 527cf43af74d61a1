#include "distributed/combine.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <type_traits>

#include "core/error.h"

namespace mt::distributed {

namespace {

// How elements are read, computed with, and written.
template <class T>
struct As {
    using Value = T;
    static T read(T value) { return value; }
    static T write(T value) { return value; }
};
template <>
struct As<half> {
    using Value = float;
    static float read(half value) { return float_of_half(value.bits); }
    static half write(float value) { return {half_bits(value)}; }
};
template <>
struct As<bfloat16> {
    using Value = float;
    static float read(bfloat16 value) { return float_of_bfloat16(value.bits); }
    static bfloat16 write(float value) { return {bfloat16_bits(value)}; }
};

template <class V>
constexpr bool is_complex_value = std::is_same_v<V, complex64> || std::is_same_v<V, complex128>;

template <ReduceKind K, class V>
V step(V a, V b) {
    if constexpr (std::is_same_v<V, bool>) {
        if constexpr (K == ReduceKind::Sum || K == ReduceKind::Max || K == ReduceKind::Or) return a | b;
        else if constexpr (K == ReduceKind::Xor) return a ^ b;
        else return a & b;
    } else if constexpr (is_complex_value<V>) {
        if constexpr (K == ReduceKind::Product) return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
        else return {a.re + b.re, a.im + b.im};
    } else if constexpr (std::is_integral_v<V>) {
        using U = std::conditional_t<(sizeof(V) < 4), uint32_t, std::make_unsigned_t<V>>;
        if constexpr (K == ReduceKind::Sum) return static_cast<V>(static_cast<U>(a) + static_cast<U>(b));
        else if constexpr (K == ReduceKind::Product) return static_cast<V>(static_cast<U>(a) * static_cast<U>(b));
        else if constexpr (K == ReduceKind::Min) return std::min(a, b);
        else if constexpr (K == ReduceKind::Max) return std::max(a, b);
        else if constexpr (K == ReduceKind::And) return a & b;
        else if constexpr (K == ReduceKind::Or) return a | b;
        else return a ^ b;
    } else {
        if constexpr (K == ReduceKind::Sum || K == ReduceKind::Average) return a + b;
        else if constexpr (K == ReduceKind::Product) return a * b;
        // A NaN stays, whichever side it is on.
        else if constexpr (K == ReduceKind::Min) return a < b || a != a ? a : b;
        else return a > b || a != a ? a : b;
    }
}

template <class V>
V divided(V value, int count) {
    if constexpr (is_complex_value<V>) {
        using Part = decltype(value.re);
        return {value.re / static_cast<Part>(count), value.im / static_cast<Part>(count)};
    } else {
        return value / static_cast<V>(count);
    }
}

// An element at any address: operands of small messages lie behind headers.
template <class T>
struct [[gnu::packed, gnu::may_alias]] Loose {
    T value;
};

// The result may be one of the operands.
template <ReduceKind K, class T>
void combine_as(const char* const* given, int ranks, char* to, size_t count) {
    using Value = typename As<T>::Value;
    if (!count) return;  // there may be no operands: it is only asked whether it can be done
    auto of = [&](int rank) { return reinterpret_cast<const Loose<T>*>(given[rank]); };
    auto* out = reinterpret_cast<Loose<T>*>(to);
    auto finished = [&](Value value) {
        if constexpr (K == ReduceKind::Average) value = divided(value, ranks);
        return As<T>::write(value);
    };
    if (ranks == 1) {
        const Loose<T>* first = of(0);
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) out[i].value = finished(As<T>::read(first[i].value));
        return;
    }
    if (ranks == 2) {
        const Loose<T>* first = of(0);
        const Loose<T>* second = of(1);
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i)
            out[i].value = finished(step<K>(As<T>::read(first[i].value), As<T>::read(second[i].value)));
        return;
    }
    constexpr size_t kBlock = 512;
    Value sums[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
        const size_t size = std::min(kBlock, count - begin);
        const Loose<T>* first = of(0) + begin;
        const Loose<T>* second = of(1) + begin;
        for (size_t i = 0; i < size; ++i) sums[i] = step<K>(As<T>::read(first[i].value), As<T>::read(second[i].value));
        for (int rank = 2; rank < ranks; ++rank) {
            const Loose<T>* next = of(rank) + begin;
            for (size_t i = 0; i < size; ++i) sums[i] = step<K>(sums[i], As<T>::read(next[i].value));
        }
        for (size_t i = 0; i < size; ++i) out[begin + i].value = finished(sums[i]);
    }
}

template <class T>
constexpr bool takes(ReduceKind kind) {
    using Value = typename As<T>::Value;
    constexpr bool whole = std::is_integral_v<Value>;  // bool too
    switch (kind) {
        case ReduceKind::Sum:
        case ReduceKind::Product: return true;
        case ReduceKind::Average: return !whole;
        case ReduceKind::Min:
        case ReduceKind::Max: return !is_complex_value<Value>;
        default: return whole;
    }
}

template <class T>
bool combine_of(ReduceKind kind, const char* const* ranks, int count_of_ranks, char* out, size_t count) {
    switch (kind) {
#define MT_COMBINE(K)                                                        \
    case ReduceKind::K:                                                      \
        if constexpr (takes<T>(ReduceKind::K)) {                             \
            combine_as<ReduceKind::K, T>(ranks, count_of_ranks, out, count); \
            return true;                                                     \
        }                                                                    \
        return false;
        MT_COMBINE(Sum)
        MT_COMBINE(Average)
        MT_COMBINE(Product)
        MT_COMBINE(Min)
        MT_COMBINE(Max)
        MT_COMBINE(And)
        MT_COMBINE(Or)
        MT_COMBINE(Xor)
#undef MT_COMBINE
        default: return false;
    }
}

constexpr const char* kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};

}  // namespace

const char* name_of(ReduceKind kind) { return kNames[static_cast<size_t>(kind)]; }

void combine(DType dtype, ReduceKind kind, const char* const* ranks, int count_of_ranks, char* out, size_t count) {
    bool done = false;
    switch (dtype) {
#define MT_CASE(D, T, ...)                                                                                 \
    case DType::D:                                                                                         \
        if constexpr (!is_float8(DType::D)) done = combine_of<T>(kind, ranks, count_of_ranks, out, count); \
        break;
        MT_FOREACH_DTYPE(MT_CASE)
#undef MT_CASE
        default: break;
    }
    if (!done) fail_type(std::string("ReduceOp.") + name_of(kind) + " does not take " + info(dtype).name);
}

}  // namespace mt::distributed
