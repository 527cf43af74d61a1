// Copies of a product's operands, laid out as the kernels read them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime/products/gemm_product.h"

namespace mt::gemm_detail {

inline int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

template <size_t kBytes>
inline void copy_rows_of(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_step, from + i * from_step, kBytes);
}

/// Copies rows of a matrix. The usual widths of panels are too short for a call for each row.
template <class T>
inline void copy_rows(Matrix<const T> from, Matrix<T> to, int64_t rows, int64_t cols) {
    constexpr int64_t kSize = sizeof(T);
    const char* src = reinterpret_cast<const char*>(from.data);
    char* dst = reinterpret_cast<char*>(to.data);
    const int64_t src_step = from.rs * kSize, dst_step = to.rs * kSize;
    switch (cols * kSize) {
        case 32: return copy_rows_of<32>(src, src_step, dst, dst_step, rows);
        case 64: return copy_rows_of<64>(src, src_step, dst, dst_step, rows);
        case 128: return copy_rows_of<128>(src, src_step, dst, dst_step, rows);
        default: break;
    }
    for (int64_t i = 0; i < rows; ++i) {
        std::memcpy(dst + i * dst_step, src + i * src_step, static_cast<size_t>(cols * kSize));
    }
}

/// Packs `lines` lines of `rows` contiguous elements each, `from_step` apart, in tiles of tile_rows elements of every
/// line, one line after the other. kBytes is no less than these elements have: where it is more, the next line's take
/// the place of those that are too many, and behind a tile there is room for them.
template <size_t kBytes, class T>
inline void pack_tiles(int64_t rows, int64_t lines, const T* from, int64_t from_step, T* to, int64_t tile_rows,
                       int64_t tile_step) {
    constexpr int64_t kSize = sizeof(T);
    constexpr int64_t kChunk = 8;  // lines that stay in a first-level cache, whatever their distance
    for (int64_t p0 = 0; p0 < lines; p0 += kChunk, from += kChunk * from_step, to += kChunk * tile_rows) {
        const int64_t chunk = std::min(kChunk, lines - p0);
        T* tile = to;
        for (int64_t i = 0; i < rows; i += tile_rows, tile += tile_step) {
            if ((rows - i) * kSize >= static_cast<int64_t>(kBytes)) {
                copy_rows_of<kBytes>(reinterpret_cast<const char*>(from + i), from_step * kSize,
                                     reinterpret_cast<char*>(tile), tile_rows * kSize, chunk);
                continue;
            }
            const int64_t count = std::min(tile_rows, rows - i);
            for (int64_t p = 0; p < chunk; ++p) std::copy_n(from + i + p * from_step, count, tile + p * tile_rows);
        }
    }
}

template <class T>
inline void pack_columns(int64_t rows, int64_t lines, const T* from, int64_t from_step, T* to, int64_t tile_rows,
                         int64_t tile_step) {
    const int64_t bytes = tile_rows * static_cast<int64_t>(sizeof(T));
    const auto pack = bytes <= 16   ? pack_tiles<16, T>
                      : bytes <= 32 ? pack_tiles<32, T>
                      : bytes <= 64 ? pack_tiles<64, T>
                                    : pack_tiles<128, T>;
    pack(rows, lines, from, from_step, to, tile_rows, tile_step);
}

/// Rows that are packed while tiles are computed: with each of so many tiles an equal share is sent for, and copied
/// once the tile is done; without a place to go to, they are only sent for.
template <class T>
struct Coming {
    Matrix<const T> from{};
    Matrix<T> to{};
    int64_t rows = 0, cols = 0, tiles = 1;
    int64_t tile = 0, done = 0;

    /// Sends for the next share during a tile over kc values of k: for what is read, and for the place it goes to.
    void send(int64_t kc, Send<T>& read, Send<T>& written) const {
        const int64_t count = due() - done;
        if (count <= 0) return;
        const int64_t steps = ceil_div(kc, kLineOfA<T>), lines = ceil_div(cols, kLineOfA<T>);
        const auto spread = [&](const Matrix<const T>& m) -> Send<T> {
            const T* at = m.data + done * m.rs;
            if (lines < steps) {  // some rows in each step
                const int64_t places = ceil_div(count, steps);
                return {at, m.rs, places * m.rs, static_cast<int>(places), static_cast<int>(lines)};
            }
            const int64_t each = ceil_div(lines, steps);  // some lines of each row
            return {at, m.rs, each * kLineOfA<T>, static_cast<int>(count), static_cast<int>(each)};
        };
        read = spread(from);
        if (to.data != nullptr) written = spread({to.data, to.rs, 1});
    }

    /// Copies the share after its tile.
    void copy() {
        const int64_t end = due();
        ++tile;
        if (end > done && to.data != nullptr) {
            copy_rows<T>({from.data + done * from.rs, from.rs, 1}, {to.data + done * to.rs, to.rs, 1}, end - done,
                         cols);
        }
        done = std::max(done, end);
    }

    /// Copies what is left.
    void finish() {
        tile = tiles;
        copy();
        rows = done = 0;
    }

  private:
    int64_t due() const { return std::min(rows, ceil_div(rows * (tile + 1), tiles)); }
};

}  // namespace mt::gemm_detail
