// In which order an elementwise op's result has its dimensions in memory: that of its operands, as in PyTorch.
#pragma once

#include <initializer_list>
#include <vector>

#include "dispatch/op.h"

namespace mt {

// The dimensions of a result of `sizes`, outermost in memory first, as the strides of the operands want them: of two
// dimensions the one with the larger stride in the first operand that tells them apart is the outer one. False if that
// is row-major order, where `order` is left as it was.
bool memory_order(const Tensor* const* operands, size_t count, const Dims& sizes, Dims& order);

// `dims` of a result (sizes or strides) with its dimensions in that order, and back.
Dims in_order(const Dims& dims, const Dims& order);
Dims out_of_order(const Dims& dims, const Dims& order);

// Whether an op's results are in its operands' order: elementwise ops', unless registered otherwise. Other ops that
// keep it have results of their operand's sizes, and their parameters `dim` and `dims` are dimensions of it.
// CopiedStrides also has the strides of dimensions of size 1, as copies do. KeptOfTensor is kept unless the first
// operand is a number. Images is the order of channels-last images, if all operands are such, and else row-major.
enum class Order : uint8_t { ByKind, RowMajor, Kept, KeptOfReal, KeptOfTensor, CopiedStrides, Images };
struct RegisterOrder {
    RegisterOrder(Order order, std::initializer_list<const char*> names);
};
bool keeps_order(const Call& call);

// Whether the result may be anything but row-major.
inline bool has_strided_operand(const Call& call) {
    if (call.results[0].sizes.size() < 2) return false;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor; t && t->ndim() >= 2 && !t->contiguous()) return true;
    return false;
}

// While it lives, the operands of an inferred elementwise call, and the sizes of its results, have their dimensions in
// the order of the results' memory, so that these are row-major. Whoever runs the call knows of no other.
class InMemoryOrder {
  public:
    // Does nothing where the result is row-major after all.
    explicit InMemoryOrder(Call& call);
    ~InMemoryOrder() { restore(); }
    InMemoryOrder(const InMemoryOrder&) = delete;
    // The call as it was, and the results with the strides that they have.
    void finish(Ref<Tensor>* results);

  private:
    void restore();
    void set_strides_of_ones(const Dims& sizes, Dims& strides) const;

    struct Moved {
        Tensor* operand = nullptr;
        Ref<Tensor> handle;
    };
    static constexpr size_t kMost = 4;
    Call& call_;
    Dims order_;
    Value params_[kMost];
    Moved few_[kMost];
    std::vector<Moved> many_;
    Moved* moved_ = few_;
};

}  // namespace mt
