// Loops over formulas: a struct with a static `apply` makes a loop of any form of loop_library.h. Included with
// MT_LOOPS_NS defined to a namespace of its own, for the reason that math/functions.h gives. No include guard: see
// there.

namespace mt::cpu::MT_LOOPS_NS {
namespace {

// The elements of a loop's input that is one value, as many as a block has.
template <class T> struct Filled {
    static constexpr int64_t block = 256;
    alignas(64) T values[block];
    // Unless the input is one value there is nothing to repeat: compiled code calls loops for a few vectors each.
    Filled(const void* value, bool single, int64_t n) {
        if (!single) return;
        const T v = *static_cast<const T*>(value);
        for (int64_t i = 0; i < (n < block ? n : block); ++i) values[i] = v;
    }
};

// An input may be the very array that is written: no element depends on another one's result, which `ivdep` says.
template <class Op, class T> __attribute__((flatten)) void unary_loop(void* out, const void* in, int64_t n) {
    auto* r = static_cast<decltype(Op::apply(T{}))*>(out);
    auto* x = static_cast<const T*>(in);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(x[i]);
}

// A function whose vector form is only good for most arguments, `Op::special` for the others.
template <class Op, class T> __attribute__((flatten)) void guarded_loop(void* out, const void* in, int64_t n) {
    auto* r = static_cast<T*>(out);
    auto* x = static_cast<const T*>(in);
    for (int64_t start = 0; start < n; start += Filled<T>::block) {
        int64_t end = n - start < Filled<T>::block ? n : start + Filled<T>::block;
        int special = 0;
        for (int64_t i = start; i < end; ++i) special |= Op::is_special(x[i]);
        if (!special) {
#pragma GCC ivdep
            for (int64_t i = start; i < end; ++i) r[i] = Op::apply(x[i]);
        } else {
            for (int64_t i = start; i < end; ++i) r[i] = Op::is_special(x[i]) ? Op::special(x[i]) : Op::apply(x[i]);
        }
    }
}

template <class Op, class T>
__attribute__((noinline, flatten)) void pairs(decltype(Op::apply(T{}, T{}))* r, const T* a, const T* b, int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(a[i], b[i]);
}

template <class Op, class T>
bool binary_loop(void* out, const void* a, const void* b, int64_t n, unsigned scalars) {
    auto* r = static_cast<decltype(Op::apply(T{}, T{}))*>(out);
    auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
    if (scalars == 0 || n == 1) {
        pairs<Op, T>(r, x, y, n);
        return true;
    }
    constexpr int64_t block = Filled<T>::block;
    Filled<T> fx(a, scalars & 1, n), fy(b, scalars & 2, n);
    for (int64_t i = 0; i < n; i += block)
        pairs<Op, T>(r + i, scalars & 1 ? fx.values : x + i, scalars & 2 ? fy.values : y + i,
                     n - i < block ? n - i : block);
    return true;
}

// The same for a function that is only good for most arguments.
template <class Op, class T>
__attribute__((noinline, flatten)) void guarded_pairs(T* r, const T* a, const T* b, int64_t n) {
    int special = 0;
    for (int64_t i = 0; i < n; ++i) special |= Op::is_special(a[i], b[i]);
    if (!special) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(a[i], b[i]);
    } else {
        for (int64_t i = 0; i < n; ++i)
            r[i] = Op::is_special(a[i], b[i]) ? Op::special(a[i], b[i]) : Op::apply(a[i], b[i]);
    }
}

template <class Op, class T>
bool guarded_binary_loop(void* out, const void* a, const void* b, int64_t n, unsigned scalars) {
    auto* r = static_cast<T*>(out);
    auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
    constexpr int64_t block = Filled<T>::block;
    Filled<T> fx(a, scalars & 1, n), fy(b, scalars & 2, n);
    for (int64_t i = 0; i < n; i += block)
        guarded_pairs<Op, T>(r + i, scalars & 1 ? fx.values : x + i, scalars & 2 ? fy.values : y + i,
                             n - i < block ? n - i : block);
    return true;
}

template <class Op, class T>
__attribute__((noinline, flatten)) void triples(decltype(Op::apply(T{}, T{}, T{}))* r, const T* a, const T* b,
                                                const T* c, int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(a[i], b[i], c[i]);
}

template <class Op, class T>
void ternary_loop(void* out, const void* a, const void* b, const void* c, int64_t n, unsigned scalars) {
    auto* r = static_cast<decltype(Op::apply(T{}, T{}, T{}))*>(out);
    auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b), *z = static_cast<const T*>(c);
    if (scalars == 0 || n == 1) return triples<Op, T>(r, x, y, z, n);
    constexpr int64_t block = Filled<T>::block;
    Filled<T> fx(a, scalars & 1, n), fy(b, scalars & 2, n), fz(c, scalars & 4, n);
    for (int64_t i = 0; i < n; i += block)
        triples<Op, T>(r + i, scalars & 1 ? fx.values : x + i, scalars & 2 ? fy.values : y + i,
                       scalars & 4 ? fz.values : z + i, n - i < block ? n - i : block);
}

template <class Op, class T>
__attribute__((noinline, flatten)) void triples_and_number(T* r, const T* a, const T* b, const T* c, T number,
                                                           int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(a[i], b[i], c[i], number);
}

// For x, y, z and a number: loops over blocks in which what is one value is repeated.
template <class Op, class T>
void quadruple_loop(void* out, const void* const* in, int64_t n, unsigned scalars) {
    auto* r = static_cast<T*>(out);
    auto *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]), *z = static_cast<const T*>(in[2]);
    const T number = *static_cast<const T*>(in[3]);
    if ((scalars & 7) == 0 || n == 1) return triples_and_number<Op, T>(r, x, y, z, number, n);
    constexpr int64_t block = Filled<T>::block;
    Filled<T> fx(x, scalars & 1, n), fy(y, scalars & 2, n), fz(z, scalars & 4, n);
    for (int64_t i = 0; i < n; i += block)
        triples_and_number<Op, T>(r + i, scalars & 1 ? fx.values : x + i, scalars & 2 ? fy.values : y + i,
                                  scalars & 4 ? fz.values : z + i, number, n - i < block ? n - i : block);
}
}  // namespace
}  // namespace mt::cpu::MT_LOOPS_NS
