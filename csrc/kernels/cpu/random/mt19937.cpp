// The ops that draw PyTorch's random numbers, each with what it takes of the generator. How numbers come of words is
// PyTorch 2.13's way for the CPU (docs/numerics.md).
#include "kernels/cpu/random/mt19937.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "dispatch/infer/shape/creation.h"
#include "dispatch/registry.h"
#include "kernels/cpu/random/random.h"

namespace mt::cpu {

Drawing::Drawing(const Call& call) {
    if (call.twister) {
        from_ = call.twister;
        return;
    }
    if (call.philox_offset == kStreamPlace) {
        const std::shared_ptr<const StreamPlace> place = find_place(call.seed);
        if (!place) fail("op '" + call.op->name + "': its place among the random numbers is not known any more");
        own_ = place->twister;
    } else {
        own_.emplace(call.seed + call.philox_offset * 0x9e3779b97f4a7c15);
    }
    from_ = &*own_;
}

namespace {

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }
int64_t numel_of(const Call& call) { return product(call.results[0].sizes); }

// What numbers are computed in before they are converted to the result's type: from double, in one step or by float.
DType stored_in(DType dtype) { return is_half(dtype) || dtype == DType::F32 ? DType::F32 : DType::F64; }

// f(words) of two words for each element, as doubles.
template <class F> void fill_doubles(Call& call, F f) {
    Tensor& out = *call.outputs[0];
    Drawing from(call);
    ContiguousOut to(out, stored_in(out.dtype));
    if (stored_in(out.dtype) == DType::F32) {
        auto* data = to.as<float>();
        for_each_drawn(*from, out.numel, 2,
                       [&](int64_t i, const uint32_t* words) { data[i] = static_cast<float>(f(unit_of(words))); });
    } else {
        auto* data = to.as<double>();
        for_each_drawn(*from, out.numel, 2, [&](int64_t i, const uint32_t* words) { data[i] = f(unit_of(words)); });
    }
    to.store();
}

void advance_doubles(const Call& call, Twister& twister) { twister.skip(static_cast<uint64_t>(numel_of(call)) * 2); }

// ---- uniform

// Of half precision: rounded from single, and what is rounded up to the upper bound is the lower one.
void round_below(float* data, int64_t n, DType dtype, float low, float high) {
    constexpr int64_t kBlock = 1024;
    uint16_t halves[kBlock];
    auto round = [&](float* at, int64_t count) {
        convert_contiguous(halves, dtype, at, DType::F32, count);
        convert_contiguous(at, DType::F32, halves, dtype, count);
    };
    round(&low, 1);
    round(&high, 1);
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t count = std::min(kBlock, n - first);
        round(data + first, count);
        for (int64_t i = first; i < first + count; ++i) data[i] = data[i] >= high ? low : data[i];
    }
}

void uniform(Call& call) {
    Tensor& out = *call.outputs[0];
    const double low = call.param(1).as_double(), high = call.param(2).as_double();
    if (out.dtype == DType::F64) {
        const double range = high - low;
        return fill_doubles(call, [=](double u) { return std::fma(u, range, low); });
    }
    const auto base = static_cast<float>(low), top = static_cast<float>(high), range = top - base;
    Drawing from(call);
    ContiguousOut to(out, DType::F32);
    auto* data = to.as<float>();
    constexpr int64_t kBlock = 8192;
    uint32_t words[kBlock];
    for (int64_t i = 0; i < out.numel; i += kBlock) {
        const int64_t n = std::min(kBlock, out.numel - i);
        from->words(words, n);
        random_loops().torch_uniform(words, n, base, range, data + i);
        if (is_half(out.dtype)) round_below(data + i, n, out.dtype, base, top);
    }
    to.store();
}

void advance_uniform(const Call& call, Twister& twister) {
    const int64_t n = numel_of(call);
    twister.skip(static_cast<uint64_t>(call.results[0].dtype == DType::F64 ? 2 * n : n));
}

// ---- normal: below 16 elements, and where they don't lie one after the other, number by number; else in groups of 16,
// of which the first eight and the last eight numbers make eight pairs. The last group begins 16 elements before the
// end, with new words.

constexpr int64_t kGroup = 16;

bool by_number(const Call& call, int64_t numel) { return call.param(3).as_bool() || numel < kGroup; }

// Of half precision the words of elements beyond the last whole group are not drawn.
int64_t drawn_first(DType dtype, int64_t numel) { return is_half(dtype) ? numel / kGroup * kGroup : numel; }

void normal_one_by_one(Call& call, double mean, double deviation, bool exponential) {
    Tensor& out = *call.outputs[0];
    Drawing from(call);
    const DType stored = stored_in(out.dtype);
    ContiguousOut to(out, stored);
    for (int64_t i = 0; i < out.numel; ++i) {
        double value = std::fma(from->normal(), deviation, mean);
        if (exponential) value = std::exp(value);
        if (stored == DType::F32) to.as<float>()[i] = static_cast<float>(value);
        else to.as<double>()[i] = value;
    }
    to.store();
}

void normal_groups_f64(double* data, int64_t count, double mean, double deviation) {
    for (int64_t g = 0; g < count; ++g, data += kGroup) {
        for (int64_t i = 0; i < kGroup / 2; ++i) {
            const double radius = std::sqrt(-2.0 * std::log(1.0 - data[i]));
            const double angle = 6.283185307179586 * data[i + kGroup / 2];
            data[i] = std::fma(radius * std::cos(angle), deviation, mean);
            data[i + kGroup / 2] = std::fma(radius * std::sin(angle), deviation, mean);
        }
    }
}

template <class T> void normal_in_groups(Call& call, double mean, double deviation) {
    Tensor& out = *call.outputs[0];
    constexpr bool single = sizeof(T) == 4;
    Drawing from(call);
    ContiguousOut to(out, single ? DType::F32 : DType::F64);
    auto* data = to.template as<T>();
    constexpr int64_t kBlock = 8192, kGrain = 64;
    uint32_t words[kBlock * (single ? 1 : 2)];
    auto uniform = [&](T* at, int64_t n) {
        from->words(words, single ? n : 2 * n);
        if constexpr (single) random_loops().torch_uniform(words, n, 0.0f, 1.0f, at);
        else
            for (int64_t i = 0; i < n; ++i) at[i] = unit_of(words + 2 * i);
    };
    auto transform = [&](T* at, int64_t groups) {
        if constexpr (single)
            random_loops().torch_normal(at, groups, static_cast<float>(mean), static_cast<float>(deviation));
        else normal_groups_f64(at, groups, mean, deviation);
    };
    const int64_t first = drawn_first(out.dtype, out.numel);
    for (int64_t i = 0; i < first; i += kBlock) {
        const int64_t n = std::min(kBlock, first - i);
        uniform(data + i, n);
        parallel_for(n / kGroup, kGrain,
                     [&](int64_t begin, int64_t end) { transform(data + i + begin * kGroup, end - begin); });
    }
    if (out.numel % kGroup != 0) {
        uniform(data + out.numel - kGroup, kGroup);
        transform(data + out.numel - kGroup, 1);
    }
    to.store();
}

void normal(Call& call) {
    const Tensor& out = *call.outputs[0];
    const double mean = call.param(1).as_double(), deviation = call.param(2).as_double();
    if (by_number(call, out.numel)) return normal_one_by_one(call, mean, deviation, false);
    if (out.dtype == DType::F64) return normal_in_groups<double>(call, mean, deviation);
    normal_in_groups<float>(call, mean, deviation);
}

void advance_normal(const Call& call, Twister& twister) {
    const int64_t n = numel_of(call);
    if (by_number(call, n)) return twister.skip_normal(n);
    const DType dtype = call.results[0].dtype;
    const int64_t drawn = drawn_first(dtype, n) + (n % kGroup ? kGroup : 0);
    twister.skip(static_cast<uint64_t>(dtype == DType::F64 ? 2 * drawn : drawn));
}

void log_normal(Call& call) { normal_one_by_one(call, call.param(1).as_double(), call.param(2).as_double(), true); }

void advance_log_normal(const Call& call, Twister& twister) { twister.skip_normal(numel_of(call)); }

// ---- integers: base + word % range, of the words' 32 or 64 bits; a range of 0 is that of all words

struct Integers {
    int64_t base;
    uint64_t range;
    bool wide;
    explicit Integers(const Call& call)
        : base(call.param(1).as_int()),
          range(static_cast<uint64_t>(call.param(2).as_int()) - static_cast<uint64_t>(base) + 1),
          wide(range == 0 || range >> 32 || call.param(3).as_int() == 64 ||
               (call.param(3).as_int() != 32 && range >= uint64_t{1} << 28)) {}
    int64_t of(uint64_t word) const {
        return static_cast<int64_t>((range ? word % range : word) + static_cast<uint64_t>(base));
    }
};

template <class T> void integers_as(Call& call, DType dtype) {
    Tensor& out = *call.outputs[0];
    const Integers of(call);
    Drawing from(call);
    ContiguousOut to(out, dtype);
    auto* data = to.template as<T>();
    if (of.wide) {
        for_each_drawn(*from, out.numel, 2, [&](int64_t i, const uint32_t* words) {
            data[i] = static_cast<T>(of.of(static_cast<uint64_t>(words[0]) << 32 | words[1]));
        });
    } else {
        const auto range = static_cast<uint32_t>(of.range);
        for_each_drawn(*from, out.numel, 1, [&](int64_t i, const uint32_t* words) {
            data[i] = static_cast<T>(of.base + static_cast<int64_t>(words[0] % range));
        });
    }
    to.store();
}

void integers(Call& call) {
    const DType dtype = call.outputs[0]->dtype;
    if (is_half(dtype) || dtype == DType::F32) return integers_as<float>(call, DType::F32);
    integers_as<int64_t>(call, DType::I64);
}

void advance_integers(const Call& call, Twister& twister) {
    twister.skip(static_cast<uint64_t>(numel_of(call)) * (Integers(call).wide ? 2 : 1));
}

// ---- permutations: element i changes places with one of those from i on

template <class T> void shuffle(Twister& twister, T* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(i);
    constexpr int64_t kBlock = 1024;
    uint32_t words[kBlock];
    int64_t places[kBlock];
    for (int64_t first = 0; first < n - 1; first += kBlock) {
        const int64_t count = std::min(kBlock, n - 1 - first);
        twister.words(words, count);
        for (int64_t k = 0; k < count; ++k) {
            const auto left = static_cast<uint64_t>(n - first - k);
            places[k] = first + k +
                        static_cast<int64_t>(left >> 32 ? words[k] : words[k] % static_cast<uint32_t>(left));
            __builtin_prefetch(out + places[k], 1);
        }
        for (int64_t k = 0; k < count; ++k) std::swap(out[first + k], out[places[k]]);
    }
}

void permutation(Call& call) {
    Tensor& out = *call.outputs[0];
    Drawing from(call);
    if (out.dtype == DType::I32) {
        ContiguousOut to(out, DType::I32);
        shuffle(*from, to.as<int32_t>(), out.numel);
        return to.store();
    }
    ContiguousOut to(out, DType::I64);
    shuffle(*from, to.as<int64_t>(), out.numel);
    to.store();
}

void advance_permutation(const Call& call, Twister& twister) {
    twister.skip(static_cast<uint64_t>(std::max<int64_t>(numel_of(call) - 1, 0)));
}

// ---- numbers computed from one of 53 bits each

void bernoulli(Call& call) {
    const double p = call.param(1).as_double();
    fill_doubles(call, [=](double u) { return u < p ? 1.0 : 0.0; });
}

void exponential(Call& call) {
    const double factor = -1.0 / call.param(1).as_double();
    fill_doubles(call, [=](double u) { return factor * std::log1p(-u); });
}

void cauchy(Call& call) {
    const double median = call.param(1).as_double(), sigma = call.param(2).as_double();
    fill_doubles(call, [=](double u) { return std::fma(sigma, std::tan(3.141592653589793 * (u - 0.5)), median); });
}

void geometric(Call& call) {
    const double logarithm = std::log(1.0 - call.param(1).as_double());
    fill_doubles(call, [=](double u) { return std::ceil(std::log(u) / logarithm); });
}

const RegisterNative registered{
    {"_mt19937_uniform", infer_uniform, uniform, Takes::Any, advance_uniform},
    {"_mt19937_normal", infer_drawn_floats, normal, Takes::Any, advance_normal},
    {"_mt19937_log_normal", infer_drawn_floats, log_normal, Takes::Any, advance_log_normal},
    {"_mt19937_integers", infer_drawn, integers, Takes::Any, advance_integers},
    {"_mt19937_permutation", infer_randperm, permutation, Takes::Loop, advance_permutation},
    {"_mt19937_bernoulli", infer_drawn, bernoulli, Takes::Any, advance_doubles},
    {"_mt19937_exponential", infer_drawn_floats, exponential, Takes::Any, advance_doubles},
    {"_mt19937_cauchy", infer_drawn_floats, cauchy, Takes::Any, advance_doubles},
    {"_mt19937_geometric", infer_drawn, geometric, Takes::Any, advance_doubles},
};

}  // namespace
}  // namespace mt::cpu
