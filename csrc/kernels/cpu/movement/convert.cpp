// Conversion between any two dtypes, composed of the few loops that are compiled: to the type that elements are
// computed in, to another such type, and to memory.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/cpu/elementwise/loops.h"

namespace mt::cpu {

namespace {

constexpr size_t kCount = static_cast<size_t>(DType::Count);
constexpr int64_t kBlock = 256;

// The steps of a conversion, and the bytes of the elements between them.
struct Route {
    ConvertFn steps[5] = {};
    size_t item[5] = {};
    size_t count = 0;

    void add(ConvertFn step, DType to) {
        if (!step) return;
        item[count] = itemsize(to);
        steps[count++] = step;
    }
};

Route find_route(DType from, DType to) {
    const ElementwiseTable& table = elementwise();
    Route route;
    auto between = [&](DType a, DType b) {
        if (a != b) route.add(table.convert[dtype_index(a)][dtype_index(b)], b);
    };
    auto direct = [&](DType a, DType b) { return table.convert[dtype_index(a)][dtype_index(b)] != nullptr; };
    DType a = loop_dtype(from), b = loop_dtype(to);
    route.add(table.load[static_cast<size_t>(from)], a);
    if (a == b || direct(a, b)) {
        between(a, b);
    } else {
        // A complex number by way of the real type of its own precision.
        DType middle_a = real_dtype(a), middle_b = real_dtype(b);
        between(a, middle_a);
        between(middle_a, middle_b);
        between(middle_b, b);
    }
    route.add(table.store[static_cast<size_t>(to)], to);
    return route;
}

void follow(const Route& route, size_t from_item, char* out, const char* in, int64_t n) {
    alignas(64) char buffers[2][kBlock * 16];
    size_t to_item = route.item[route.count - 1];
    for (int64_t start = 0; start < n; start += kBlock) {
        int64_t count = std::min(kBlock, n - start);
        const void* source = in + start * static_cast<int64_t>(from_item);
        for (size_t i = 0; i < route.count; ++i) {
            void* target = i + 1 == route.count ? out + start * static_cast<int64_t>(to_item) : buffers[i % 2];
            route.steps[i](target, source, count);
            source = target;
        }
    }
}

template <size_t from, size_t to>
void composed(void* out, const void* in, int64_t n) {
    static const Route route = find_route(static_cast<DType>(from), static_cast<DType>(to));
    follow(route, itemsize(static_cast<DType>(from)), static_cast<char*>(out), static_cast<const char*>(in), n);
}

template <size_t item>
void same(void* out, const void* in, int64_t n) {
    std::memmove(out, in, static_cast<size_t>(n) * item);
}

template <size_t from, size_t... to>
constexpr std::array<ConvertFn, kCount> composed_row(std::index_sequence<to...>) {
    return {composed<from, to>...};
}
template <size_t... from>
constexpr std::array<std::array<ConvertFn, kCount>, kCount> composed_table(std::index_sequence<from...> all) {
    return {composed_row<from>(all)...};
}

struct Table {
    std::array<std::array<ConvertFn, kCount>, kCount> functions = composed_table(std::make_index_sequence<kCount>{});

    // One step needs no buffers.
    Table() {
        for (size_t i = 0; i < kCount; ++i) {
            for (size_t j = 0; j < kCount; ++j) {
                Route route = find_route(static_cast<DType>(i), static_cast<DType>(j));
                if (i != j && route.count == 1) functions[i][j] = route.steps[0];
            }
            switch (itemsize(static_cast<DType>(i))) {
                case 1: functions[i][i] = same<1>; break;
                case 2: functions[i][i] = same<2>; break;
                case 4: functions[i][i] = same<4>; break;
                case 8: functions[i][i] = same<8>; break;
                default: functions[i][i] = same<16>;
            }
        }
    }
};

}  // namespace

ConvertFn get_convert(DType from, DType to) {
    static const Table table;
    return table.functions[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

}  // namespace mt::cpu
