// The building blocks of the reductions for one instruction set: sums of rows and of columns in the documented order.
// See vectors.h for how it is included.

namespace mt::cpu::MT_ISA_NS {
namespace {

template <class Op>
inline constexpr int kVecs = static_cast<int>(kLanes) / kWidth<typename Op::In>;

// Adds n elements to 64 lanes, held in kVecs vectors: element r goes to lane r % 64.
template <class Op>
MT_INLINE void accumulate(Vec<typename Op::Acc> (&lanes)[kVecs<Op>], const typename Op::In* p, int64_t n) {
    using In = typename Op::In;
    constexpr int W = kWidth<In>, N = kVecs<Op>;
    int64_t r = 0;
    for (; r + kLanes <= n; r += kLanes)
#pragma GCC unroll 16
        for (int k = 0; k < N; ++k) lanes[k] = Op::combine(lanes[k], Op::map(load<In>(p + r + k * W)));
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) {
        int64_t left = n - r - k * W;
        if (left >= W) lanes[k] = Op::combine(lanes[k], Op::map(load<In>(p + r + k * W)));
        else if (left > 0)
            lanes[k] = Op::combine(lanes[k],
                                   Op::map(load_partial<In>(p + r + k * W, static_cast<int>(left), Op::fill())));
    }
}

template <class Op, int W>
MT_INLINE typename Op::Acc halve(Vec<typename Op::Acc> v) {
    if constexpr (W == 0) return v[0];
    else return halve<Op, W / 2>(Op::combine(v, rotate<W, typename Op::Acc>(v)));
}

// lane[l] += lane[l + w] for w in 32, 16, ..., 1.
template <class Op>
MT_INLINE typename Op::Acc combine_lanes(Vec<typename Op::Acc> (&lanes)[kVecs<Op>]) {
#pragma GCC unroll 8
    for (int half = kVecs<Op> / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int k = 0; k < half; ++k) lanes[k] = Op::combine(lanes[k], lanes[k + half]);
    return halve<Op, kWidth<typename Op::Acc> / 2>(lanes[0]);
}

// The key of the extreme of at least a vector of numbers, from their bits as integers: half the instructions that a key
// for each takes. Three extremes of the bits tell, see `key_of_bits`.
template <class Op>
MT_INLINE typename Op::Acc extreme_of_bits(const typename Op::In* p, int64_t n) {
    using In = typename Op::In;
    using High = typename Op::High;
    using Most = typename Op::Most;
    using Last = typename Op::Last;
    constexpr int W = kWidth<In>, N = 4;
    Vec<typename High::Acc> high[N];
    Vec<typename Most::Acc> most[N];
    Vec<typename Last::Acc> last[N];
    Vec<In> v = load<In>(p);
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) {
        high[k] = (Vec<typename High::Acc>)v;
        most[k] = (Vec<typename Most::Acc>)v;
        last[k] = (Vec<typename Last::Acc>)v;
    }
    int64_t r = W;
    for (; r + N * W <= n; r += N * W)
#pragma GCC unroll 4
        for (int k = 0; k < N; ++k) {
            v = load<In>(p + r + k * W);
            asm("" : "+x"(v));  // read once, not as an operand of each
            high[k] = High::combine(high[k], (Vec<typename High::Acc>)v);
            most[k] = Most::combine(most[k], (Vec<typename Most::Acc>)v);
            last[k] = Last::combine(last[k], (Vec<typename Last::Acc>)v);
        }
    for (; r < n; r += W) {
        v = load<In>(p + (r + W <= n ? r : n - W));  // some of them again at the end
        high[0] = High::combine(high[0], (Vec<typename High::Acc>)v);
        most[0] = Most::combine(most[0], (Vec<typename Most::Acc>)v);
        last[0] = Last::combine(last[0], (Vec<typename Last::Acc>)v);
    }
#pragma GCC unroll 4
    for (int k = 1; k < N; ++k) {
        high[0] = High::combine(high[0], high[k]);
        most[0] = Most::combine(most[0], most[k]);
        last[0] = Last::combine(last[0], last[k]);
    }
    return Op::key_of_bits(halve<High, W / 2>(high[0]), halve<Most, W / 2>(most[0]), halve<Last, W / 2>(last[0]));
}

// One block of a row.
template <class Op>
MT_INLINE typename Op::Acc reduce_row(const typename Op::In* p, int64_t n) {
    using In = typename Op::In;
    constexpr int W = kWidth<In>;
    if (n <= W) {
        // The other lanes keep the identity, which changes nothing.
        Vec<In> v = n == W ? load<In>(p) : load_partial<In>(p, static_cast<int>(n), Op::fill());
        return halve<Op, W / 2>(Op::combine(identity<Op>(), Op::map(v)));
    }
    if constexpr (requires { typename Op::Last; }) {
        return extreme_of_bits<Op>(p, n);
    } else {
        Vec<typename Op::Acc> lanes[kVecs<Op>];
#pragma GCC unroll 16
        for (int k = 0; k < kVecs<Op>; ++k) lanes[k] = identity<Op>();
        accumulate<Op>(lanes, p, n);
        return combine_lanes<Op>(lanes);
    }
}

// One block of N * W adjacent rows and, if Tail, of `tail` more. The lanes of all rows stay in the first-level cache.
template <class Op, int N, bool Tail>
void adjacent_rows(typename Op::Acc* acc, const typename Op::In* p, int64_t n, int64_t n_stride, int tail) {
    using In = typename Op::In;
    using Acc = typename Op::Acc;
    constexpr int W = kWidth<In>, M = N + Tail;
    Vec<Acc> lanes[kLanes][M];
    for (int l = 0; l < kLanes; ++l)
#pragma GCC unroll 16
        for (int k = 0; k < M; ++k) lanes[l][k] = identity<Op>();
    for (int64_t r = 0; r < n; ++r, p += n_stride) {
        Vec<Acc>* lane = lanes[r % kLanes];
#pragma GCC unroll 16
        for (int k = 0; k < N; ++k) lane[k] = Op::combine(lane[k], Op::map(load<In>(p + k * W)));
        if constexpr (Tail) lane[N] = Op::combine(lane[N], Op::map(load_partial<In>(p + N * W, tail, Op::fill())));
    }
    for (int w = kLanes / 2; w > 0; w /= 2)
        for (int l = 0; l < w; ++l)
#pragma GCC unroll 16
            for (int k = 0; k < M; ++k) lanes[l][k] = Op::combine(lanes[l][k], lanes[l + w][k]);
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) store<Acc>(acc + k * W, lanes[0][k]);
    if constexpr (Tail) store_partial<Acc>(acc + N * W, lanes[0][N], tail);
}

// Columns of one block, N whole vectors and a partial one of `tail` elements, for narrow matrices: B blocks at once
// hide the latency of one chain of additions.
template <class Op, int N, int B>
void narrow_columns(typename Op::Acc* acc, const typename Op::In* p, int64_t rows, int64_t row_stride, int64_t cols,
                    int64_t block) {
    using In = typename Op::In;
    using Acc = typename Op::Acc;
    constexpr int W = kWidth<In>;
    int tail = static_cast<int>(cols - N * W);
    Vec<Acc> a[B][N + 1];
#pragma GCC unroll 16
    for (int b = 0; b < B; ++b)
#pragma GCC unroll 16
        for (int k = 0; k <= N; ++k) a[b][k] = identity<Op>();
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 16
        for (int b = 0; b < B; ++b) {
            const In* row = p + (b * block + r) * row_stride;
#pragma GCC unroll 16
            for (int k = 0; k < N; ++k) a[b][k] = Op::combine(a[b][k], Op::map(load<In>(row + k * W)));
            if (tail) a[b][N] = Op::combine(a[b][N], Op::map(load_partial<In>(row + N * W, tail, Op::fill())));
        }
    }
#pragma GCC unroll 16
    for (int b = 0; b < B; ++b) {
#pragma GCC unroll 16
        for (int k = 0; k < N; ++k) store<Acc>(acc + b * cols + k * W, a[b][k]);
        if (tail) store_partial<Acc>(acc + b * cols + N * W, a[b][N], tail);
    }
}

// Columns of one block of a wide matrix: chunks of accumulators that stay in the first-level cache, four rows at a
// time.
template <class Op>
void wide_columns(typename Op::Acc* acc, const typename Op::In* p, int64_t rows, int64_t row_stride, int64_t cols) {
    using In = typename Op::In;
    using Acc = typename Op::Acc;
    constexpr int W = kWidth<In>;
    constexpr int64_t chunk = 1024;
    for (int64_t c0 = 0; c0 < cols; c0 += chunk) {
        int64_t width = cols - c0 < chunk ? cols - c0 : chunk, whole = width / W * W;
        int tail = static_cast<int>(width - whole);
        for (int64_t r = 0; r < rows; r += 4) {
            int64_t take = rows - r < 4 ? rows - r : 4;
            const In* row = p + r * row_stride + c0;
            for (int64_t c = 0; c < whole; c += W) {
                Vec<Acc> a = r == 0 ? identity<Op>() : load<Acc>(acc + c0 + c);
                if (take == 4) {
                    Vec<Acc> x0 = Op::map(load<In>(row + c)), x1 = Op::map(load<In>(row + c + row_stride));
                    Vec<Acc> x2 = Op::map(load<In>(row + c + 2 * row_stride));
                    Vec<Acc> x3 = Op::map(load<In>(row + c + 3 * row_stride));
                    a = Op::combine(Op::combine(Op::combine(Op::combine(a, x0), x1), x2), x3);
                } else {
                    for (int64_t i = 0; i < take; ++i) a = Op::combine(a, Op::map(load<In>(row + c + i * row_stride)));
                }
                store<Acc>(acc + c0 + c, a);
            }
            if (tail) {
                Acc* out = acc + c0 + whole;
                Vec<Acc> a = r == 0 ? identity<Op>() : load_partial<Acc>(out, tail, Acc(0));
                for (int64_t i = 0; i < take; ++i)
                    a = Op::combine(a, Op::map(load_partial<In>(row + whole + i * row_stride, tail, Op::fill())));
                store_partial<Acc>(out, a, tail);
            }
        }
    }
}

// One block of up to W columns that are contiguous themselves, through transposed squares.
template <class Op>
void contiguous_columns(typename Op::Acc* acc, const typename Op::In* p, int64_t rows, int64_t col_stride,
                        int64_t cols) {
    using In = typename Op::In;
    constexpr int W = kWidth<In>;
    const In* column[W];
    for (int k = 0; k < W; ++k) column[k] = p + (k < cols ? k : cols - 1) * col_stride;
    Vec<typename Op::Acc> a = identity<Op>();
    Vec<In> v[W];
    int64_t r = 0;
    for (; r + W <= rows; r += W) {
#pragma GCC unroll 16
        for (int k = 0; k < W; ++k) v[k] = load<In>(column[k] + r);
        transpose<In>(v);
#pragma GCC unroll 16
        for (int k = 0; k < W; ++k) a = Op::combine(a, Op::map(v[k]));
    }
    if (r < rows) {
        int left = static_cast<int>(rows - r);
#pragma GCC unroll 16
        for (int k = 0; k < W; ++k) v[k] = load_partial<In>(column[k] + r, left, Op::fill());
        transpose<In>(v);
#pragma GCC unroll 16
        for (int k = 0; k < W; ++k)
            if (k < left) a = Op::combine(a, Op::map(v[k]));
    }
    if (cols >= W) store<typename Op::Acc>(acc, a);
    else store_partial<typename Op::Acc>(acc, a, static_cast<int>(cols));
}

template <class Op>
struct Loops {
    using In = typename Op::In;
    using Acc = typename Op::Acc;
    static constexpr int W = kWidth<In>, N = kVecs<Op>;

    static void rows(void* acc, const void* in, int64_t count, int64_t stride, int64_t n) {
        auto* out = static_cast<Acc*>(acc);
        auto* p = static_cast<const In*>(in);
        for (int64_t i = 0; i < count; ++i) out[i] = reduce_row<Op>(p + i * stride, n);
    }
    static void lanes_init(void* lanes) {
        for (int k = 0; k < N; ++k) store<Acc>(static_cast<Acc*>(lanes) + k * W, identity<Op>());
    }
    static void lanes_add(void* lanes, const void* in, int64_t n) {
        Vec<Acc> v[N];
        for (int k = 0; k < N; ++k) v[k] = load<Acc>(static_cast<Acc*>(lanes) + k * W);
        accumulate<Op>(v, static_cast<const In*>(in), n);
        for (int k = 0; k < N; ++k) store<Acc>(static_cast<Acc*>(lanes) + k * W, v[k]);
    }
    static void lanes_finish(void* acc, const void* lanes) {
        Vec<Acc> v[N];
        for (int k = 0; k < N; ++k) v[k] = load<Acc>(static_cast<const Acc*>(lanes) + k * W);
        *static_cast<Acc*>(acc) = combine_lanes<Op>(v);
    }
    static void adjacent(void* acc, const void* in, int64_t n, int64_t n_stride, int64_t count) {
        auto* out = static_cast<Acc*>(acc);
        auto* p = static_cast<const In*>(in);
        constexpr int most = W * 4 < 64 ? 4 : 64 / W;
        for (; count >= most * W; count -= most * W, out += most * W, p += most * W)
            adjacent_rows<Op, most, false>(out, p, n, n_stride, 0);
        for (; count >= W; count -= W, out += W, p += W) adjacent_rows<Op, 1, false>(out, p, n, n_stride, 0);
        if (count) adjacent_rows<Op, 0, true>(out, p, n, n_stride, static_cast<int>(count));
    }
    template <int B>
    static void narrow(Acc* acc, const In* p, int64_t rows, int64_t row_stride, int64_t cols, int64_t block) {
        switch (cols / W) {
            case 0: return narrow_columns<Op, 0, B>(acc, p, rows, row_stride, cols, block);
            case 1: return narrow_columns<Op, 1, B>(acc, p, rows, row_stride, cols, block);
            case 2: return narrow_columns<Op, 2, B>(acc, p, rows, row_stride, cols, block);
            default: return narrow_columns<Op, 3, B>(acc, p, rows, row_stride, cols, block);
        }
    }
    static void columns(void* acc, const void* in, int64_t rows, int64_t row_stride, int64_t cols, int64_t block) {
        auto* out = static_cast<Acc*>(acc);
        auto* p = static_cast<const In*>(in);
        while (rows > 0) {
            int64_t take = rows < block ? rows : block;
            if (cols >= 4 * W) {
                wide_columns<Op>(out, p, take, row_stride, cols);
            } else if (rows >= 4 * block) {
                take = 4 * block;
                narrow<4>(out, p, block, row_stride, cols, block);
                out += 3 * cols;
            } else {
                narrow<1>(out, p, take, row_stride, cols, block);
            }
            out += cols;
            p += take * row_stride;
            rows -= take;
        }
    }
    static void along(void* acc, const void* in, int64_t rows, int64_t col_stride, int64_t cols) {
        for (int64_t c = 0; c < cols; c += W)
            contiguous_columns<Op>(static_cast<Acc*>(acc) + c, static_cast<const In*>(in) + c * col_stride, rows,
                                   col_stride, cols - c);
    }
    static void combine(void* total, const void* part, int64_t n) {
        auto* a = static_cast<Acc*>(total);
        auto* b = static_cast<const Acc*>(part);
        int64_t i = 0;
        for (; i + W <= n; i += W) store<Acc>(a + i, Op::combine(load<Acc>(a + i), load<Acc>(b + i)));
        if (i < n) {
            int left = static_cast<int>(n - i);
            Vec<Acc> x = load_partial<Acc>(a + i, left, Acc(0)), y = load_partial<Acc>(b + i, left, Acc(0));
            store_partial<Acc>(a + i, Op::combine(x, y), left);
        }
    }
    static void fill(void* acc, int64_t n) {
        Acc value = identity<Op>()[0];
        for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(acc)[i] = value;
    }
    static constexpr ReduceLoops table(DType dtype) {
        ReduceLoops loops{dtype,    dtype,   rows,    lanes_init, lanes_add, lanes_finish,
                          adjacent, columns, nullptr, combine,    fill,      nullptr};
        if constexpr (sizeof(In) >= 4) loops.contiguous_columns = along;
        if constexpr (!__is_same(In, Acc)) loops.finish = Op::unmap;
        return loops;
    }
};

}  // namespace
}  // namespace mt::cpu::MT_ISA_NS
