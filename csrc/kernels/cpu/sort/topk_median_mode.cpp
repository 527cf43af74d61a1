// topk, the k-th smallest element (kthvalue, median, nanmedian), and mode.
#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "dispatch/infer/shape/order.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/sort/sort.h"

namespace mt::cpu {

namespace {

constexpr int64_t kPiece = 1024, kPart = 1 << 16;

// The results of a selection along a dimension: values and indices, contiguous.
struct Task {
    DType dtype;
    Along shape;
    const char* in;
    char* values;
    int64_t* indices;
    int64_t size;

    Task(Call& call, const Packed& packed, size_t dim)
        : dtype(call.in(0).dtype), shape(call.in(0).sizes, dim), in(packed.as<char>()),
          values(call.outputs[0]->ptr<char>()), indices(call.outputs[1]->ptr<int64_t>()),
          size(static_cast<int64_t>(itemsize(call.in(0).dtype))) {}

    // A whole tensor as one row.
    Task(const Tensor& t, const Packed& packed, int64_t* index, char* value)
        : dtype(t.dtype), shape(Dims{}, 0), in(packed.as<char>()), values(value), indices(index),
          size(static_cast<int64_t>(itemsize(t.dtype))) {
        shape.n = t.numel;
    }

    const char* at(int64_t base, int64_t r) const { return in + (base + r * shape.inner) * size; }
    void store(int64_t place, int64_t base, int64_t index) const {
        copy_element(values + place * size, at(base, index), size);
        indices[place] = index;
    }
};

size_t dim_of(const Call& call, size_t param) {
    return static_cast<size_t>(normalize_dim(call.param(param).as_int(), call.in(0).ndim()));
}

// Keeps the k least of the items it is shown: what isn't below the worst of k is passed over.
template <class Item>
class Best {
  public:
    explicit Best(int64_t k) : k_(k), room_(k + std::max<int64_t>(k, 64)) {
        items_.reserve(static_cast<size_t>(room_));
    }
    void clear() {
        items_.clear();
        full_ = false;
    }
    template <class Key>
    void add(const Key* keys, int64_t first, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
            // Later elements with the same key come after it.
            if (full_ && keys[i] >= bound_) continue;
            items_.push_back(make_item(keys[i], first + i));
            if (static_cast<int64_t>(items_.size()) == room_) shrink();
        }
    }
    void add(const Item& item) { items_.push_back(item); }
    // The k least, in order if `sorted`.
    const std::vector<Item>& finish(bool sorted) {
        if (static_cast<int64_t>(items_.size()) > k_) shrink();
        int64_t compared = 0;
        if (sorted) std::sort(items_.begin(), items_.end(), interruptible(compared, std::less<Item>()));
        return items_;
    }

  private:
    void shrink() {
        if (k_ == 0) return items_.clear();
        std::nth_element(items_.begin(), items_.begin() + k_ - 1, items_.end());
        items_.resize(static_cast<size_t>(k_));
        bound_ = key_of(items_.back());
        full_ = true;
    }
    int64_t k_, room_;
    bool full_ = false;
    decltype(key_of(Item())) bound_{};
    std::vector<Item> items_;
};

template <class Key>
void add_range(Best<ItemOf<Key>>& best, const Task& task, int64_t base, int64_t begin, int64_t end, bool largest) {
    Key keys[kPiece];
    for (int64_t r = begin; r < end; r += kPiece) {
        if (r % kAsk == 0) check_interrupt();
        int64_t count = std::min(kPiece, end - r);
        load_keys(keys, task.dtype, task.at(base, r), task.shape.inner, count, largest);
        best.add(keys, r, count);
    }
}

template <class Key>
void topk_rows(const Task& task, int64_t k, bool largest, bool sorted) {
    using Item = ItemOf<Key>;
    const Along& shape = task.shape;
    auto store = [&](int64_t i, const std::vector<Item>& items) {
        int64_t place = i / shape.inner * k * shape.inner + i % shape.inner;
        for (int64_t j = 0; j < k; ++j)
            task.store(place + j * shape.inner, shape.base(i), index_of(items[static_cast<size_t>(j)]));
    };
    int64_t parts = shape.n / kPart;
    if (shape.rows() < num_threads() && parts > 1 && k < kPart / 4) {
        std::vector<std::vector<Item>> found(static_cast<size_t>(parts));
        for (int64_t i = 0; i < shape.rows(); ++i) {
            parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
                for (int64_t part = begin; part < end; ++part) {
                    Best<Item> best(k);
                    add_range<Key>(best, task, shape.base(i), part * shape.n / parts, (part + 1) * shape.n / parts,
                                   largest);
                    found[static_cast<size_t>(part)] = best.finish(false);
                }
            });
            Best<Item> best(k);
            for (const auto& items : found)
                for (const Item& item : items) best.add(item);
            store(i, best.finish(sorted));
        }
        return;
    }
    parallel_for(shape.rows(), grain_of(shape.n * 4), [&](int64_t begin, int64_t end) {
        Best<Item> best(k);
        for (int64_t i = begin; i < end; ++i) {
            best.clear();
            add_range<Key>(best, task, shape.base(i), 0, shape.n, largest);
            store(i, best.finish(sorted));
        }
    });
}

void topk_kernel(Call& call) {
    const Tensor& t = call.in(0);
    if (call.outputs[0]->numel == 0) return;
    Packed in(t, t.dtype);
    Task task(call, in, dim_of(call, 1));
    int64_t k = t.ndim() ? call.param(0).as_int() : 1;
    bool largest = call.param(2).as_bool(), sorted = call.param(3).as_bool();
    narrow_keys(t.dtype, task.shape.n) ? topk_rows<uint32_t>(task, k, largest, sorted)
                                       : topk_rows<uint64_t>(task, k, largest, sorted);
}

// Which element of the order is wanted.
enum class Rank : uint8_t { Kth, Median, NanMedian };

// Of one row: the index of the element with rank k (from 0). Elements are counted by the upper digits of their keys,
// and only those that share them with the wanted one are put in order.
template <class Key>
class Selection {
  public:
    using Item = ItemOf<Key>;
    static constexpr int kBits = 11;
    static constexpr int64_t kBuckets = 1 << kBits;

    explicit Selection(const Task& task)
        : task_(task), shift_(std::max(0, static_cast<int>(std::min<int64_t>(task.size, sizeof(Key))) * 8 - kBits)),
          nan_(nan_key<Key>(task.dtype, false)), floating_(is_floating(task.dtype)) {}

    int64_t find(int64_t base, Rank rank, int64_t k) {
        int64_t n = task_.shape.n;
        if (n <= kPiece) return find_short(base, rank, k);
        std::fill(counts_, counts_ + kBuckets, 0);
        int64_t nans = 0, first_nan = -1;
        visit(base, [&](const Key* keys, int64_t first, int64_t count) {
            for (int64_t i = 0; i < count; ++i) ++counts_[keys[i] >> shift_];
            if (!floating_ || rank == Rank::Kth) return;
            for (int64_t i = 0; i < count; ++i) {
                if (keys[i] != nan_) continue;
                if (!nans++) first_nan = first + i;
            }
        });
        if (rank == Rank::Median && nans) return first_nan;
        if (rank != Rank::Kth) k = middle(n, rank == Rank::NanMedian ? nans : 0);
        int64_t bucket = 0;
        while (k >= counts_[bucket]) k -= counts_[bucket++];
        items_.clear();
        items_.reserve(static_cast<size_t>(counts_[bucket]));
        visit(base, [&](const Key* keys, int64_t first, int64_t count) {
            for (int64_t i = 0; i < count; ++i)
                if (static_cast<int64_t>(keys[i] >> shift_) == bucket) items_.push_back(make_item(keys[i], first + i));
        });
        return nth(k);
    }

  private:
    static int64_t middle(int64_t n, int64_t nans) { return n == nans ? 0 : (n - nans - 1) / 2; }
    template <class F>
    void visit(int64_t base, F&& body) {
        Key keys[kPiece];
        for (int64_t r = 0; r < task_.shape.n; r += kPiece) {
            if (r % kAsk == 0) check_interrupt();
            int64_t count = std::min(kPiece, task_.shape.n - r);
            load_keys(keys, task_.dtype, task_.at(base, r), task_.shape.inner, count, false);
            body(keys, r, count);
        }
    }
    int64_t find_short(int64_t base, Rank rank, int64_t k) {
        int64_t n = task_.shape.n, nans = 0;
        Key keys[kPiece];
        load_keys(keys, task_.dtype, task_.at(base, 0), task_.shape.inner, n, false);
        items_.clear();
        for (int64_t i = 0; i < n; ++i) {
            if (floating_ && keys[i] == nan_) {
                if (rank == Rank::Median) return i;
                ++nans;
            }
            items_.push_back(make_item(keys[i], i));
        }
        return nth(rank == Rank::Kth ? k : middle(n, rank == Rank::NanMedian ? nans : 0));
    }
    int64_t nth(int64_t k) {
        std::nth_element(items_.begin(), items_.begin() + k, items_.end());
        return index_of(items_[static_cast<size_t>(k)]);
    }

    const Task& task_;
    int shift_;
    Key nan_;
    bool floating_;
    int64_t counts_[kBuckets];
    std::vector<Item> items_;
};

template <class Key>
void select_rows(const Task& task, Rank rank, int64_t k) {
    const Along& shape = task.shape;
    parallel_for(shape.rows(), grain_of(shape.n * 8), [&](int64_t begin, int64_t end) {
        Selection<Key> selection(task);
        for (int64_t i = begin; i < end; ++i) task.store(i, shape.base(i), selection.find(shape.base(i), rank, k));
    });
}

void select_along(Call& call, size_t dim_param, Rank rank, int64_t k) {
    const Tensor& t = call.in(0);
    if (call.outputs[0]->numel == 0) return;
    Packed in(t, t.dtype);
    Task task(call, in, dim_of(call, dim_param));
    narrow_keys(t.dtype, task.shape.n) ? select_rows<uint32_t>(task, rank, k) : select_rows<uint64_t>(task, rank, k);
}

void kthvalue_kernel(Call& call) { select_along(call, 1, Rank::Kth, call.param(0).as_int() - 1); }
void median_kernel(Call& call) { select_along(call, 0, Rank::Median, 0); }
void nanmedian_kernel(Call& call) { select_along(call, 0, Rank::NanMedian, 0); }

// Of all elements as one row.
template <Rank rank>
void middle_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (t.numel == 0) {
        // NaN, converted.
        Scalar nothing = t.dtype == DType::I32 ? Scalar::of(int64_t{INT32_MIN}) : Scalar::of(int64_t{INT64_MIN});
        if (is_floating(t.dtype)) nothing = Scalar::of(std::numeric_limits<double>::quiet_NaN());
        return store_scalar(nothing, out.dtype, out.data());
    }
    Packed in(t, t.dtype);
    int64_t index = 0;
    Task task(t, in, &index, out.ptr<char>());
    narrow_keys(t.dtype, t.numel) ? select_rows<uint32_t>(task, rank, 0) : select_rows<uint64_t>(task, rank, 0);
}

// The least of the most frequent values, and where it stands last.
template <class Key>
void mode_rows(const Task& task) {
    const Along& shape = task.shape;
    parallel_for(shape.rows(), grain_of(shape.n * 16), [&](int64_t begin, int64_t end) {
        std::vector<Key> keys(static_cast<size_t>(shape.n));
        std::vector<ItemOf<Key>> items(keys.size());
        for (int64_t i = begin; i < end; ++i) {
            load_keys(keys.data(), task.dtype, task.at(shape.base(i), 0), shape.inner, shape.n, false);
            for (size_t r = 0; r < keys.size(); ++r) items[r] = make_item(keys[r], static_cast<int64_t>(r));
            int64_t compared = 0;
            std::sort(items.begin(), items.end(), interruptible(compared, std::less<ItemOf<Key>>()));
            // NaN is equal to nothing, so it is never frequent.
            Key nan = nan_key<Key>(task.dtype, false);
            bool floating = is_floating(task.dtype);
            size_t most = 0, last = 0;
            for (size_t r = 0, start = 0; r < items.size(); ++r) {
                Key key = key_of(items[r]);
                if (r && (key != key_of(items[r - 1]) || (floating && key == nan))) start = r;
                if (r + 1 - start <= most) continue;
                most = r + 1 - start;
                last = r;
            }
            task.store(i, shape.base(i), index_of(items[last]));
        }
    });
}

void mode_kernel(Call& call) {
    const Tensor& t = call.in(0);
    if (call.outputs[0]->numel == 0) return;
    Packed in(t, t.dtype);
    Task task(call, in, dim_of(call, 0));
    narrow_keys(t.dtype, task.shape.n) ? mode_rows<uint32_t>(task) : mode_rows<uint64_t>(task);
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"topk", infer_topk, topk_kernel},
                                    {"kthvalue", infer_kthvalue, kthvalue_kernel},
                                    {"median_dim", infer_median_dim, median_kernel},
                                    {"nanmedian_dim", infer_nanmedian_dim, nanmedian_kernel},
                                    {"_median", infer_median, middle_kernel<Rank::Median>},
                                    {"_nanmedian", infer_nanmedian, middle_kernel<Rank::NanMedian>},
                                    {"mode", infer_mode, mode_kernel},
                                }};

}  // namespace

}  // namespace mt::cpu
