#include "runtime/products/gemm_product.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "core/process/interrupt.h"
#include "core/process/parallel.h"
#include "runtime/products/gemm.h"
#include "runtime/products/gemm_packing.h"
#include "runtime/scratch.h"

namespace mt::gemm_detail {
namespace {

// A block of A is so many rows over so many blocks of k: most of a second-level cache.
constexpr int64_t kRowsOfA = 196;
constexpr int64_t kBlocksOfA = 2;
// Packed columns of B: a share of the last-level cache, in bytes.
constexpr int64_t kBytesOfSlab = 8 << 20;
// More bytes than this come from memory, or nearly so.
constexpr int64_t kBytesOfCache = 2 << 20;
// Addresses at this distance share a set of a first-level cache, which has room for so many of them.
constexpr int64_t kCachePeriod = 4096;
constexpr int64_t kCacheWays = 8;
constexpr int64_t kCacheLine = 64;
// So many cache lines take half of a first-level cache, and their pages are more than it finds at once.
constexpr int64_t kManyLines = 256;
// The widest vector there is.
constexpr int64_t kBytesOfVector = 64;
// Elements of C that an epilogue gets at once, about.
constexpr int64_t kEpilogueTile = 16 << 10;
// Multiply-adds that are worth a task of their own.
constexpr int64_t kTaskWork = 128 << 10;
// Tiles of a task for which a panel of B is worth reading, where there are tasks enough for all threads.
constexpr int64_t kTilesOfTask = 8;
// Elements that keep the rows of packed A out of each other's cache sets.
constexpr int64_t kRowPadding = 16;

// Packed A belongs to the thread that uses it, as a panel of B does that is packed for one use; packed B (Shared) to
// the thread that owns the product.
thread_local Scratch t_packed_a;
thread_local Scratch t_panel;
thread_local Scratch t_packed_b;

// Whether a panel of B is packed: each is by the first thread that needs it.
constexpr uint8_t kUnpacked = 0, kClaimed = 1, kPacked = 2;

bool claim(uint8_t* state) {
    uint8_t expected = kUnpacked;
    return std::atomic_ref(*state).compare_exchange_strong(expected, kClaimed, std::memory_order_relaxed);
}

bool is_packed(uint8_t* state) { return std::atomic_ref(*state).load(std::memory_order_acquire) == kPacked; }

void set_packed(uint8_t* state) { std::atomic_ref(*state).store(kPacked, std::memory_order_release); }

int64_t round_up(int64_t n, int64_t d) { return ceil_div(n, d) * d; }

/// C = a tile whose rows are `rs` apart, added to `add` unless that is null; it has the strides of C.
template <class T>
void add_tile(const T* tile, int64_t rs, int64_t rows, int64_t cols, Matrix<T> c, const T* add) {
    for (int64_t y = 0; y < rows; ++y) {
        for (int64_t x = 0; x < cols; ++x) {
            T& element = *c.at(y, x);
            const T value = tile[y * rs + x];
            if (add == nullptr) {
                element = value;
                continue;
            }
            const T before = add[y * c.rs + x * c.cs];
            if constexpr (std::is_floating_point_v<T>) {
                element = before + value;
            } else {
                element = static_cast<T>(static_cast<uint64_t>(before) + static_cast<uint64_t>(value));
            }
        }
    }
}

/// Splits n into equal parts of at most `most`, each but the last a multiple of `unit`; returns the size of a part.
int64_t balanced(int64_t n, int64_t most, int64_t unit) { return round_up(ceil_div(n, ceil_div(n, most)), unit); }

}  // namespace

template <class T>
int64_t Product<T>::padded(int64_t cols) const {
    return round_up(cols, kernels->lanes);
}

template <class T>
void Product<T>::transpose() {
    std::swap(m, n);
    const Matrix<const T> old_a = a;
    a = {b.data, b.cs, b.rs};
    b = {old_a.data, old_a.cs, old_a.rs};
    std::swap(c.rs, c.cs);
    epilogue.transposed = !epilogue.transposed;
}

/// An estimate of the time, in vector multiply-adds, as far as it depends on the orientation.
template <class T>
double Product<T>::cost() const {
    double cost = static_cast<double>(m) * static_cast<double>(ceil_div(n, kernels->lanes)) * static_cast<double>(k);
    if (n > 1 && b.cs != 1) cost += static_cast<double>(n) * static_cast<double>(k) * (b.rs == 1 ? 0.3 : 2.0);
    if (n > 1 && c.cs != 1) {
        cost += 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                static_cast<double>(ceil_div(k, kGemmBlockK<T>));
    }
    return cost;
}

template <class T>
void Product<T>::plan() {
    const int64_t lanes = kernels->lanes;
    if (n == 1 && m > 1) {
        transpose();
    } else if (m > 1 && (c.cs != 1 || b.cs != 1 || n < lanes)) {
        const double as_is = cost();
        transpose();
        if (cost() > 0.9 * as_is) transpose();
    }

    const int64_t vectors = ceil_div(n, lanes);
    // Large rows of B are read in place by few rows of A, in panels as wide as can be, since each row of a panel is
    // on a page of its own: if tiles of four vectors have four rows, so that each load serves two multiply-adds.
    const bool wide_tiles = kernels->max_rows[2] >= 4;
    const int64_t packed_from = wide_tiles ? 192 : 48;
    const bool large = k * n * static_cast<int64_t>(sizeof(T)) > kernels->direct_b_bytes;
    const bool wide = m <= kernels->max_rows[2] || (wide_tiles && large && b.cs == 1 && m < packed_from);
    const int width = vectors >= 4 && wide ? 2 : vectors >= 2 ? 1 : 0;
    panel_cols = lanes << width;
    // Panels at the end are narrower; the tile must suit them as well.
    tile_rows = kernels->max_rows[width];
    if (width == 1 && vectors % 2 == 1) tile_rows = std::min<int64_t>(tile_rows, kernels->max_rows[0]);

    // A in place is as good as packed, except if each element begins a cache line of its own, if all rows of a tile
    // (all its columns) fall into one set of the first-level cache, or if several tiles would read the lines of its
    // columns time and again: then few rows at a time, or packing if that pays.
    const auto crowded = [](int64_t stride) {
        return stride != 0 && stride * static_cast<int64_t>(sizeof(T)) % kCachePeriod == 0;
    };
    if (a.cs == 1 || a.rs == 1) {
        const bool rows_crowded = a.cs == 1 && crowded(a.rs);
        const bool shared_lines = a.cs != 1 && 2 * tile_rows * static_cast<int64_t>(sizeof(T)) <= kCacheLine;
        const bool often = shared_lines && n >= (k >= kManyLines ? 3 : 32) * panel_cols;
        pack_a = (often || ((rows_crowded || crowded(a.cs)) && n > 2 * panel_cols)) && m > tile_rows;
        if (rows_crowded && !pack_a) tile_rows = std::min(tile_rows, kCacheWays - 1);
    } else {
        pack_a = n > panel_cols && m > 1;
    }
    tile_rows = balanced(m, tile_rows, 1);

    if (b.cs == 1 || n == 1) {
        pack_b = large && m >= packed_from ? PackB::Shared : PackB::None;
    } else {
        const bool dots = m == 1 && b.rs == 1 && c.cs == 1 && kernels->dots != nullptr;
        const bool local = m <= tile_rows || (m <= 64 && n >= 8 * panel_cols);
        pack_b = dots ? PackB::Dots : local ? PackB::Local : PackB::Shared;
    }
}

template <class T>
void Product<T>::clear() const {
    for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
            T* element = c.at(i, j);
            *element = add == nullptr ? T{0} : static_cast<T>(*added_to(element) + T{0});
        }
    }
    if (epilogue.fn != nullptr) epilogue(0, m, 0, n);
}

template <class T>
void Product<T>::run(int64_t threads) const {
    if (k == 0) return clear();
    if (n <= panel_cols && k <= kGemmBlockK<T> && pack_b == PackB::None && !pack_a && threads == 1) {
        Coming<T> none;
        run_panel({0, k, 0, m, 0, n, a, a.rs, true, b.data, b.rs, nullptr, 0}, none, none);
        if (epilogue.fn != nullptr) epilogue(0, m, 0, n);
        return;
    }
    if (pack_b != PackB::Shared) return run_tasks({nullptr, 0, n, nullptr}, threads);

    const int64_t bytes_of_col = k * static_cast<int64_t>(sizeof(T));
    const int64_t slab_cols = balanced(n, std::max(panel_cols, kBytesOfSlab / bytes_of_col / panel_cols * panel_cols),
                                       panel_cols);
    const int64_t bytes = bytes_of_col * padded(std::min(n, slab_cols));
    const int64_t panels = ceil_div(slab_cols, panel_cols) * ceil_div(k, kGemmBlockK<T>);
    void* memory = t_packed_b.try_get(static_cast<size_t>(bytes + panels));
    if (memory == nullptr) {
        Product slower = *this;
        slower.pack_b = b.cs == 1 || n == 1 ? PackB::None : PackB::Local;
        return slower.run_tasks({nullptr, 0, n, nullptr}, threads);
    }
    uint8_t* states = static_cast<uint8_t*>(memory) + bytes;
    for (int64_t col0 = 0; col0 < n; col0 += slab_cols) {
        std::fill_n(states, panels, kUnpacked);
        run_tasks({static_cast<T*>(memory), col0, std::min(slab_cols, n - col0), states}, threads);
    }
}

/// Packs columns of B over one block of k. A panel is stored row by row, its last vector filled up.
template <class T>
void Product<T>::pack_panels(T* dst, int64_t k0, int64_t kc, int64_t col0, int64_t cols) const {
    if (b.cs == 1) {
        const int64_t whole = cols / panel_cols * panel_cols;
        const int64_t rest = cols - whole;
        const int64_t rest_rs = padded(rest);
        for (int64_t p = 0; p < kc; ++p) {
            const T* row = b.at(k0 + p, col0);
            // The panels of a row lie as far apart as columns of the packed matrix do.
            copy_rows<T>({row, panel_cols, 1}, {dst + p * panel_cols, panel_cols * kc, 1}, whole / panel_cols,
                         panel_cols);
            if (rest > 0) {
                T* out = dst + whole * kc + p * rest_rs;
                std::copy_n(row + whole, rest, out);
                std::fill(out + rest, out + rest_rs, T{0});
            }
        }
        return;
    }
    for (int64_t j0 = 0; j0 < cols; j0 += panel_cols) {
        const int64_t width = std::min(panel_cols, cols - j0);
        const int64_t rs = padded(width);
        T* panel = dst + j0 * kc;
        const T* src = b.at(k0, col0 + j0);
        if (b.rs == 1) {
            kernels->pack_transposed(kc, width, src, b.cs, panel, rs);
        } else {
            for (int64_t p = 0; p < kc; ++p, panel += rs, src += b.rs) {
                for (int64_t j = 0; j < width; ++j) panel[j] = src[j * b.cs];
                std::fill(panel + width, panel + rs, T{0});
            }
        }
    }
}

/// Packs rows of A over some blocks of k: row by row if they are contiguous, otherwise k by k within each tile. Rows,
/// or the tiles for each of their rows, are kRowPadding apart.
template <class T>
void Product<T>::pack_rows(T* packed, int64_t row0, int64_t rows, int64_t k0, int64_t length) const {
    const T* from = a.at(row0, k0);
    if (a.cs == 1) return copy_rows<T>({from, a.rs, 1}, {packed, length + kRowPadding, 1}, rows, length);
    const int64_t tile_step = tile_rows * (length + kRowPadding);
    if (a.rs == 1) return pack_columns<T>(rows, length, from, a.cs, packed, tile_rows, tile_step);
    for (int64_t i0 = 0; i0 < rows; i0 += tile_rows, packed += tile_step) {
        const int64_t count = std::min(tile_rows, rows - i0);
        for (int64_t p = 0; p < length; ++p) {
            for (int64_t i = 0; i < count; ++i) packed[p * tile_rows + i] = *a.at(row0 + i0 + i, k0 + p);
        }
    }
}

/// Rows of C that are computed together against one packed block of A.
template <class T>
int64_t Product<T>::block_rows(int64_t rows) const {
    return balanced(rows, std::max(kRowsOfA / tile_rows * tile_rows, tile_rows), tile_rows);
}

/// Cuts the slab's columns of C into blocks and computes them in parallel.
template <class T>
void Product<T>::run_tasks(const Slab& slab, int64_t threads) const {
    const int64_t col0 = slab.col0, cols = slab.cols;
    const double work = static_cast<double>(m) * static_cast<double>(cols) * static_cast<double>(k);
    const int64_t wanted = static_cast<int64_t>(std::min(4.0 * static_cast<double>(threads), work / kTaskWork));
    if (threads == 1 || wanted <= 1) return run_block(slab, 0, m, col0, col0 + cols, 0);

    // Blocks of rows as they are packed; then more. Half as many columns mean that A is read twice as often, half as
    // many rows that B is: what is read less is cut. Packed A is also packed again, which narrow parts don't pay for.
    const int64_t tiles = ceil_div(m, tile_rows), panels = ceil_div(cols, panel_cols);
    const bool may_cut_rows = pack_b != PackB::Local;
    const int64_t narrow = pack_a ? 16 * panel_cols : panel_cols;
    int64_t down = ceil_div(m, block_rows(m)), across = 1;
    while (down * across < wanted) {
        const int64_t task_rows = ceil_div(tiles, down) * tile_rows, task_cols = ceil_div(panels, across) * panel_cols;
        const int64_t least = down * across < threads ? 1 : 2 * kTilesOfTask;
        const bool rows = may_cut_rows && tiles > down * least, wide = task_cols > narrow;
        if (wide && (!rows || task_cols > 16 * panel_cols || task_cols > task_rows)) {
            across = std::min(2 * across, panels);
        } else if (rows) {
            down = std::min(2 * down, tiles);
        } else if (down * across < threads && across < panels) {
            across = std::min(2 * across, panels);
        } else {
            break;
        }
    }
    // As many tasks for each thread.
    if (may_cut_rows && down * across >= threads) {
        const int64_t even = round_up(down, threads / std::gcd(threads, across));
        if (even <= tiles) down = even;
    }
    const int64_t tasks = down * across;
    // Each thread has a share of its own, the same in every call, so that it finds its data in its caches; one that is
    // done helps the others, so that a busy core does less. Which thread does a task changes no bit.
    struct alignas(64) Share {
        std::atomic<int64_t> next;
        int64_t end;
    };
    constexpr int64_t kMaxShares = 64;
    const int64_t shares = std::min({threads, tasks, kMaxShares});
    Share share[kMaxShares];
    for (int64_t s = 0; s < shares; ++s) {
        share[s].next.store(tasks * s / shares, std::memory_order_relaxed);
        share[s].end = tasks * (s + 1) / shares;
    }
    auto run_shares = [&](int64_t first, int64_t) {
        for (int64_t s = 0; s < shares; ++s) {
            Share& mine = share[(first + s) % shares];
            for (int64_t task; (task = mine.next.fetch_add(1, std::memory_order_relaxed)) < mine.end;) {
                check_interrupt();
                const int64_t i = task % down, j = task / down;
                const auto row = [&](int64_t part) { return std::min(m, tiles * part / down * tile_rows); };
                const auto panel = [&](int64_t part) { return panels * part / across; };
                // Those that use the same panels begin with different ones, and so pack different ones.
                const int64_t start = (panel(j + 1) - panel(j)) * i / down;
                run_block(slab, row(i), row(i + 1), col0 + panel(j) * panel_cols,
                          std::min(col0 + cols, col0 + panel(j + 1) * panel_cols), start);
            }
        }
    };
    parallel_for(shares, 1, run_shares, static_cast<int64_t>(work / kTaskWork));
}

/// A block of the single row of C, a few columns of B at a time: those are read in long runs.
template <class T>
void Product<T>::run_dots(int64_t col0, int64_t col1) const {
    // From memory, fewer streams at once are faster.
    const int64_t step = k * n * static_cast<int64_t>(sizeof(T)) > kBytesOfCache ? 16 : 32;
    if (add != nullptr && add != c.data) std::copy_n(add + col0, col1 - col0, c.data + col0);
    for (int64_t j = col0; j < col1; j += step) {
        for (int64_t k0 = 0; k0 < k; k0 += kGemmBlockK<T>) {
            kernels->dots(std::min(kGemmBlockK<T>, k - k0), std::min(step, col1 - j), a.at(0, k0), a.cs, b.at(k0, j),
                          b.cs, c.at(0, j), k0 > 0 || add != nullptr);
        }
    }
    if (epilogue.fn != nullptr) epilogue(0, 1, col0, col1 - col0);
}

/// Finds the panel in the slab, or packs it there; one that another thread packs just now is packed aside as well.
/// Sees to the next one too, whose columns begin at next_col, unless that is negative: `coming` has it if it is packed
/// beside this one. Returns its state, for whoever has packed it then.
template <class T>
uint8_t* Product<T>::use_packed(const Slab& slab, int64_t next_k, int64_t next_col, Panel& panel,
                                Coming<T>& coming) const {
    const int64_t slab_cols = padded(slab.cols), panels = ceil_div(slab.cols, panel_cols);
    const auto state_of = [&](int64_t k0, int64_t col) {
        return slab.states + k0 / kGemmBlockK<T> * panels + (col - slab.col0) / panel_cols;
    };
    T* place = slab.packed + panel.k0 * slab_cols + (panel.col0 - slab.col0) * panel.kc;
    uint8_t* state = state_of(panel.k0, panel.col0);
    if (!is_packed(state)) {
        if (claim(state)) {
            pack_panels(place, panel.k0, panel.kc, panel.col0, panel.cols);
            set_packed(state);
        } else if (T* aside = static_cast<T*>(
                       t_panel.try_get(static_cast<size_t>(panel.kc * panel_cols) * sizeof(T)))) {
            pack_panels(aside, panel.k0, panel.kc, panel.col0, panel.cols);
            place = aside;
        } else {
            while (!is_packed(state)) std::this_thread::yield();
        }
    }
    panel.b = place;
    panel.next_b = nullptr;
    if (next_col < 0) return nullptr;
    const int64_t cols = std::min(panel_cols, slab.col0 + slab.cols - next_col);
    const int64_t kc = std::min(kGemmBlockK<T>, k - next_k);
    T* next = slab.packed + next_k * slab_cols + (next_col - slab.col0) * kc;
    uint8_t* next_state = state_of(next_k, next_col);
    if (is_packed(next_state)) {
        panel.next_b = next;
        panel.next_rs = padded(cols);
    } else if (b.cs == 1 && cols == panel_cols && claim(next_state)) {
        const int64_t tiles = ceil_div(panel.row1 - panel.row0, tile_rows);
        coming = {{b.at(next_k, next_col), b.rs, 1}, {next, panel_cols, 1}, kc, panel_cols, tiles};
        return next_state;
    }
    return nullptr;
}

/// Computes one block of C on this thread.
template <class T>
void Product<T>::run_block(const Slab& slab, int64_t row0, int64_t row1, int64_t col0, int64_t col1,
                           int64_t start) const {
    if (pack_b == PackB::Dots) return run_dots(col0, col1);
    T* local = nullptr;
    if (pack_b == PackB::Local) {
        const int64_t longest = std::min(k, kGemmBlockK<T>);
        local = static_cast<T*>(t_panel.try_get(static_cast<size_t>(longest * panel_cols) * sizeof(T)));
        if (local == nullptr) return run_block_on_stack(slab, row0, row1, col0, col1, start);
    }
    run_block(slab, row0, row1, col0, col1, start, local);
}

template <class T>
__attribute__((noinline)) void Product<T>::run_block_on_stack(const Slab& slab, int64_t row0, int64_t row1,
                                                              int64_t col0, int64_t col1, int64_t start) const {
    constexpr int64_t kPanel = 4 * kBytesOfVector / static_cast<int64_t>(sizeof(T));
    alignas(64) T local[kGemmBlockK<T> * kPanel];
    run_block(slab, row0, row1, col0, col1, start, local);
}

/// `start`: the panel to begin with; `local`: memory for a packed panel over one block of k, if there is to be one.
template <class T>
void Product<T>::run_block(const Slab& slab, int64_t row0, int64_t row1, int64_t col0, int64_t col1, int64_t start,
                           T* local) const {
    const int64_t panels = ceil_div(col1 - col0, panel_cols);
    const int64_t step_rows = block_rows(row1 - row0);
    constexpr int64_t kBlock = kGemmBlockK<T>, kGroup = kBlocksOfA * kBlock;
    T* packed_a = nullptr;
    if (pack_a) {
        const int64_t size = round_up(step_rows, tile_rows) * (std::min(k, kGroup) + kRowPadding);
        packed_a = static_cast<T*>(t_packed_a.try_get(static_cast<size_t>(size) * sizeof(T)));
    }
    Coming<T> coming_a, coming_b;
    for (int64_t i0 = row0; i0 < row1; i0 += step_rows) {
        const int64_t i1 = std::min(row1, i0 + step_rows);
        // Several blocks of k for each panel: C is then still in a cache when the next block is added to it.
        for (int64_t g0 = 0; g0 < k; g0 += kGroup) {
            const int64_t g1 = std::min(k, g0 + kGroup);
            Panel panel{0, 0, i0, i1, 0, 0, a, a.rs, false, nullptr, 0, nullptr, 0};
            if (packed_a != nullptr) {
                pack_rows(packed_a, i0, i1 - i0, g0, g1 - g0);
                const bool rows = a.cs == 1;
                panel.a_step = g1 - g0 + kRowPadding;
                panel.a = {packed_a, rows ? panel.a_step : 1, rows ? 1 : tile_rows};
            } else {
                panel.a.data = a.at(i0, g0);
            }
            int64_t done = 0;  // columns before this one have been through the epilogue
            for (int64_t p = 0; p < panels; ++p) {
                const auto column = [&](int64_t at) { return col0 + (start + at) % panels * panel_cols; };
                const int64_t j = column(p);
                if (p == 0 || j == col0) done = j;
                panel.col0 = j;
                panel.cols = std::min(panel_cols, col1 - j);
                panel.first = p == 0 && packed_a == nullptr;
                const int64_t next_row = g1 < k ? i0 : i1, next_k = g1 < k ? g1 : 0;
                const bool last = p + 1 == panels;
                if (packed_a != nullptr && (a.cs == 1 || a.rs == 1) && last && next_row < row1) {
                    // What is packed next is sent for while the last panel takes its leave of these rows.
                    const int64_t rows = std::min(step_rows, row1 - next_row), length = std::min(kGroup, k - next_k);
                    const int64_t tiles = ceil_div(i1 - i0, tile_rows) * ceil_div(g1 - g0, kBlock);
                    const T* next = a.at(next_row, next_k);
                    if (a.cs == 1) coming_a = {{next, a.rs, 1}, {}, rows, length, tiles};
                    else coming_a = {{next, a.cs, 1}, {}, length, rows, tiles};
                }
                const T* a_of_group = panel.a.data;
                for (int64_t k0 = g0; k0 < g1; k0 += kBlock, panel.a.data += kBlock * panel.a.cs) {
                    panel.k0 = k0;
                    panel.kc = std::min(kBlock, k - k0);
                    panel.b = b.at(k0, j);
                    panel.b_rs = pack_b == PackB::None ? b.rs : padded(panel.cols);
                    uint8_t* packed_beside = nullptr;
                    if (pack_b == PackB::Shared) {
                        // The panel after this one: of the same columns, or of the next ones.
                        const bool same = k0 + kBlock < g1;
                        const int64_t next_col = same ? j : last ? -1 : column(p + 1);
                        packed_beside = use_packed(slab, same ? k0 + kBlock : g0, next_col, panel, coming_b);
                    } else if (pack_b == PackB::Local) {
                        pack_panels(local, k0, panel.kc, j, panel.cols);
                        panel.b = local;
                    }
                    run_panel(panel, coming_a, coming_b);
                    coming_b.finish();
                    if (packed_beside != nullptr) set_packed(packed_beside);
                }
                panel.a.data = a_of_group;
                const int64_t end = j + panel.cols;
                const bool enough = end == col1 || last || (i1 - i0) * (end - done) >= kEpilogueTile;
                if (g1 == k && epilogue.fn != nullptr && enough) {
                    epilogue(i0, i1 - i0, done, end - done);
                    done = end;
                }
            }
            coming_a.finish();
        }
    }
}

/// Computes a panel's part of C, tile by tile.
template <class T>
void Product<T>::run_panel(const Panel& panel, Coming<T>& coming_a, Coming<T>& coming_b) const {
    const int64_t lanes = kernels->lanes;
    constexpr int64_t kTileElements = 1024;
    T buffer[kTileElements];  // for a C whose rows are not contiguous
    for (int64_t j = 0; j < panel.cols;) {
        const int64_t vectors = ceil_div(panel.cols - j, lanes);
        const int width = vectors >= 4 && panel_cols == 4 * lanes ? 2 : vectors >= 2 ? 1 : 0;
        const int64_t tile_cols = lanes << width;
        const int lines = static_cast<int>(ceil_div(tile_cols, kLineOfA<T>));
        const int64_t count = std::min(tile_cols, panel.cols - j);
        const T* b_tile = panel.b + j;
        for (int64_t i = panel.row0; i < panel.row1; i += tile_rows) {
            const int64_t rows = std::min(tile_rows, panel.row1 - i);
            const bool last = i + rows == panel.row1;
            const MicroKernel<T> kernel = kernels->micro[width][rows - 1];
            const T* a_tile = panel.a.data + (i - panel.row0) * panel.a_step;

            Meanwhile<T> sends;
            const Meanwhile<T>* meanwhile = nullptr;
            const bool columns_of_a = panel.first && panel.a.rs == 1 && !last;
            const bool next_in_place = i == panel.row0 && pack_b == PackB::None && panel.col0 + j + 2 * tile_cols <= n;
            const bool next_packed = last && panel.next_b != nullptr;
            if (columns_of_a || next_in_place || next_packed || coming_a.rows > 0 || coming_b.rows > 0) {
                sends = {};
                meanwhile = &sends;
                if (columns_of_a) {
                    // The next tile's lines of many columns, which nobody else foresees; rows are read in long runs.
                    const int64_t next = std::min(rows + tile_rows, panel.row1 - i) - 1;
                    sends.a = {a_tile + next, panel.a.cs, kLineOfA<T> * panel.a.cs, kLineOfA<T>, 1};
                }
                const T* next = next_in_place ? b_tile + tile_cols : panel.next_b;
                const int64_t next_rs = next_in_place ? b.rs : panel.next_rs;
                if (next_in_place || next_packed) {
                    sends.b = {next, next_rs, kLineOfA<T> * next_rs, kLineOfA<T>, lines};
                }
                Send<T> nowhere{};  // packed A stays in a cache
                coming_a.send(panel.kc, sends.a, nowhere);
                coming_b.send(panel.kc, sends.b, sends.written);
            }

            T* out = c.at(i, panel.col0 + j);
            const T* before = panel.k0 > 0 ? out : added_to(out);
            if (c.cs == 1 || n == 1) {
                kernel(panel.kc, a_tile, panel.a.rs, panel.a.cs, b_tile, panel.b_rs, out, c.rs, count, before,
                       meanwhile);
            } else {
                kernel(panel.kc, a_tile, panel.a.rs, panel.a.cs, b_tile, panel.b_rs, buffer, tile_cols, count, nullptr,
                       meanwhile);
                add_tile(buffer, tile_cols, rows, count, {out, c.rs, c.cs}, before);
            }
            if (coming_a.rows > 0) coming_a.copy();
            if (coming_b.rows > 0) coming_b.copy();
        }
        j += count;
    }
}

template struct Product<float>;
template struct Product<double>;
template struct Product<int32_t>;
template struct Product<int64_t>;
template struct Product<uint8_t>;

}  // namespace mt::gemm_detail
