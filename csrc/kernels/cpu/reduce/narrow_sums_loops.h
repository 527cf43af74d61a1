// The sums of narrow_sums.h for one instruction set: namespace MT_NARROW_NS has Vector, kWidth, load_half and
// load_bfloat16. Included once for each; no include guard.

namespace mt::cpu::MT_NARROW_NS {
namespace {

inline Vector load_floats(const float* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}
inline void store_floats(float* to, Vector v) { __builtin_memcpy(to, &v, sizeof v); }

template <Vector (*load)(const uint16_t*)>
void add_lanes(float* lanes, const uint16_t* x, int64_t n) {
    constexpr int count = 64 / kWidth;
    Vector v[count];
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) v[k] = load_floats(lanes + k * kWidth);
    int64_t r = 0;
    for (; r + 64 <= n; r += 64)
#pragma GCC unroll 8
        for (int k = 0; k < count; ++k) v[k] = v[k] + load(x + r + k * kWidth);
    // The rest, filled up with zeros, which change nothing: no lane is ever -0.
    uint16_t rest[64] = {};
    if (r < n) {
        __builtin_memcpy(rest, x + r, static_cast<size_t>(n - r) * sizeof *x);
#pragma GCC unroll 8
        for (int k = 0; k < count; ++k) v[k] = v[k] + load(rest + k * kWidth);
    }
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) store_floats(lanes + k * kWidth, v[k]);
}

template <Vector (*load)(const uint16_t*), float (*widen)(uint16_t)>
void add_columns(float* acc, const uint16_t* x, int64_t rows, int64_t stride, int64_t cols) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const uint16_t *x0 = x + r * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
        int64_t c = 0;
        for (; c + kWidth <= cols; c += kWidth)
            store_floats(acc + c, load_floats(acc + c) + load(x0 + c) + load(x1 + c) + load(x2 + c) + load(x3 + c));
        for (; c < cols; ++c) acc[c] = acc[c] + widen(x0[c]) + widen(x1[c]) + widen(x2[c]) + widen(x3[c]);
    }
    for (; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c) acc[c] += widen(x[r * stride + c]);
}

constexpr NarrowSums kHalf = {add_lanes<load_half>, add_columns<load_half, float_of_half>};
constexpr NarrowSums kBfloat16 = {add_lanes<load_bfloat16>, add_columns<load_bfloat16, float_of_bfloat16>};

}  // namespace
}  // namespace mt::cpu::MT_NARROW_NS
