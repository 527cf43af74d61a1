#include "dispatch/memory/memory_order.h"

#include <algorithm>
#include <unordered_map>

#include "dispatch/registry.h"

namespace mt {

namespace {

constexpr size_t kMostOperands = 8;

// Whether dimension `a` lies inside `b` (1), outside of it (-1), or nothing tells (0).
int inside(const Dims* strides, size_t count, const Dims& sizes, size_t a, size_t b) {
    for (size_t i = 0; i < count; ++i) {
        int64_t of_a = strides[i][a], of_b = strides[i][b];
        if (of_a == 0 || of_b == 0) continue;  // broadcast
        if (of_a != of_b) return of_a < of_b ? 1 : -1;
        if (sizes[b] > sizes[a]) return 1;
    }
    return 0;
}

// The strides with which an operand of fewer dimensions, or of single elements, takes its part: 0 where it's repeated.
Dims seen_strides(const Tensor& t, const Dims& sizes) {
    Dims strides(sizes.size(), 0);
    for (size_t d = 0, lead = sizes.size() - t.ndim(); d < t.ndim(); ++d)
        if (t.sizes[d] != 1 || sizes[lead + d] == 1) strides[lead + d] = t.strides[d];
    return strides;
}

std::unordered_map<std::string_view, Order>& orders() {
    static auto* table = new std::unordered_map<std::string_view, Order>;
    return *table;
}

// Where a dimension is in the order.
int64_t place_of(int64_t dim, const Dims& order) {
    int64_t wanted = normalize_dim(dim, order.size());
    return std::find(order.begin(), order.end(), wanted) - order.begin();
}

// Whether it lies in memory as a channels-last image or volume, which may have gaps.
bool channels_last(const Tensor& t) {
    const size_t rank = t.ndim();
    if (rank != 4 && rank != 5) return false;
    int64_t least = 0;
    for (size_t k = 0; k < rank; ++k) {
        const size_t d = k == 0 ? 1 : k == rank - 1 ? 0 : rank - k;
        const int64_t size = t.sizes[d], stride = t.strides[d];
        if (size == 0 || stride < least || (d == 1 && stride == 0) || (d == 0 && least == t.strides[1])) return false;
        least = stride * size;
    }
    return true;
}

bool order_of_images(const Call& call, Dims& order) {
    for (size_t i = 0; i < call.operand_count; ++i)
        if (!call.operands[i].tensor || !channels_last(*call.operands[i].tensor)) return false;
    const size_t rank = call.results[0].sizes.size();
    order = Dims(rank, 0);
    for (size_t k = 1; k < rank; ++k) order[k] = k + 1 < rank ? static_cast<int64_t>(k + 1) : 1;
    return true;
}

Order order_of(const OpDef& op) {
    auto found = orders().find(op.name);
    return found == orders().end() ? Order::ByKind : found->second;
}

}  // namespace

RegisterOrder::RegisterOrder(Order order, std::initializer_list<const char*> names) {
    for (const char* name : names) orders()[name] = order;
}

bool keeps_order(const Call& call) {
    const OpDef& op = *call.op;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor; t && is_sparse(*t)) return false;
    switch (order_of(op)) {
        case Order::ByKind: return op.kind == Kind::Elementwise;
        case Order::RowMajor: return false;
        case Order::KeptOfReal: return !is_complex(call.in(0).dtype);
        case Order::KeptOfTensor: return call.operands[0].tensor != nullptr;
        default: return true;
    }
}

bool memory_order(const Tensor* const* operands, size_t count, const Dims& sizes, Dims& order) {
    size_t rank = sizes.size();
    if (rank < 2) return false;
    Dims strides[kMostOperands];
    size_t known = 0;
    for (size_t i = 0; i < count && known < kMostOperands; ++i)
        if (const Tensor* t = operands[i]; t && t->ndim() && t->ndim() <= rank)
            strides[known++] = seen_strides(*t, sizes);
    Dims found(rank, 0);
    for (size_t d = 0; d < rank; ++d) found[d] = static_cast<int64_t>(d);
    // Insertion from the innermost dimension outwards; what nothing tells apart stays in place.
    for (size_t i = rank - 1; i-- > 0;) {
        size_t at = i;
        for (size_t j = i + 1; j < rank; ++j) {
            int told = inside(strides, known, sizes, static_cast<size_t>(found[at]), static_cast<size_t>(found[j]));
            if (told < 0) break;
            if (told > 0) {
                std::swap(found[at], found[j]);
                at = j;
            }
        }
    }
    bool row_major = true;
    for (size_t d = 0; d < rank; ++d) row_major &= found[d] == static_cast<int64_t>(d);
    if (!row_major) order = found;
    return !row_major;
}

Dims in_order(const Dims& dims, const Dims& order) {
    Dims moved(dims.size(), 0);
    for (size_t d = 0; d < order.size(); ++d) moved[d] = dims[static_cast<size_t>(order[d])];
    return moved;
}

Dims out_of_order(const Dims& dims, const Dims& order) {
    Dims moved(dims.size(), 0);
    for (size_t d = 0; d < order.size(); ++d) moved[static_cast<size_t>(order[d])] = dims[d];
    return moved;
}

InMemoryOrder::InMemoryOrder(Call& call) : call_(call) {
    const Dims& sizes = call.results[0].sizes;
    const bool images = order_of(*call.op) == Order::Images;
    if ((call.operand_count > kMost && !images) || (call.op->kind != Kind::Elementwise && call.param_count > kMost))
        return;
    if (images) {
        if (!order_of_images(call, order_)) return;
    } else {
        const Tensor* tensors[kMost] = {};
        for (size_t i = 0; i < call.operand_count; ++i) tensors[i] = call.operands[i].tensor;
        if (!memory_order(tensors, call.operand_count, sizes, order_)) return;
    }
    if (call.operand_count > kMost) {
        many_.resize(call.operand_count);
        moved_ = many_.data();
    }
    for (size_t i = 0; i < call.operand_count; ++i) moved_[i].operand = call.operands[i].tensor;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = moved_[i].operand;
        if (!t || t->ndim() == 0) continue;
        Dims own(sizes.size(), 1), strides(sizes.size(), 0);
        for (size_t d = 0, lead = sizes.size() - t->ndim(); d < t->ndim(); ++d) {
            own[lead + d] = t->sizes[d];
            strides[lead + d] = t->strides[d];
        }
        Ref<Tensor>& handle = moved_[i].handle;
        handle = Tensor::make(t->storage, t->dtype, in_order(own, order_), in_order(strides, order_), t->offset);
        handle->wrapped_number = t->wrapped_number;
        call.operands[i].tensor = handle.get();
    }
    for (size_t i = 0; i < call.result_count; ++i) call.results[i].sizes = in_order(call.results[i].sizes, order_);
    if (call.op->kind == Kind::Elementwise) return;
    for (size_t i = 0; i < call.param_count; ++i) {
        Value& param = call.params[i];
        params_[i] = param;
        const std::string& name = call.op->args[call.op->param_args[i]].name;
        if (name == "dim") param.i = place_of(param.i, order_);
        if (name == "dims")
            for (int64_t& d : param.ints) d = place_of(d, order_);
    }
}

void InMemoryOrder::restore() {
    if (order_.empty()) return;
    for (size_t i = 0; i < call_.operand_count; ++i) call_.operands[i].tensor = moved_[i].operand;
    for (size_t i = 0; i < call_.result_count; ++i)
        call_.results[i].sizes = out_of_order(call_.results[i].sizes, order_);
    if (call_.op->kind != Kind::Elementwise)
        for (size_t i = 0; i < call_.param_count; ++i) call_.params[i] = params_[i];
    order_.clear();
}

// Nothing lies along a dimension of size 1, but programs see its stride. PyTorch's results have that of channels-last
// images where all operands are such, or else the one that all operands have; copies always have the latter.
void InMemoryOrder::set_strides_of_ones(const Dims& sizes, Dims& strides) const {
    if (std::find(sizes.begin(), sizes.end(), 1) == sizes.end()) return;
    auto agrees = [&](const Dims& other) {
        for (size_t d = 0; d < sizes.size(); ++d)
            if (sizes[d] != 1 && strides[d] != other[d]) return false;
        return true;
    };
    const Dims* given = nullptr;
    for (size_t i = 0; i < call_.operand_count; ++i) {
        const Tensor* t = moved_[i].operand;
        if (!t) continue;
        if (!(t->sizes == sizes) || !agrees(t->strides)) return;
        if (given && !(*given == t->strides)) return;
        given = &t->strides;
    }
    if (sizes.size() == 4 && order_of(*call_.op) != Order::CopiedStrides) {
        const int64_t n = sizes[1], row = n * sizes[3];
        const Dims channels_last{row * sizes[2], 1, row, n};
        if (agrees(channels_last)) {
            strides = channels_last;
            return;
        }
    }
    if (given) strides = *given;
}

void InMemoryOrder::finish(Ref<Tensor>* results) {
    if (order_.empty()) return;
    for (size_t i = 0; i < call_.result_count; ++i) {
        const Tensor& made = *results[i];
        Dims sizes = out_of_order(made.sizes, order_), strides = out_of_order(made.strides, order_);
        if (call_.op->kind == Kind::Elementwise) set_strides_of_ones(sizes, strides);
        results[i] = Tensor::make(made.storage, made.dtype, sizes, strides, made.offset);
    }
    restore();
}

}  // namespace mt
