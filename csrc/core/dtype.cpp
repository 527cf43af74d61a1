#include "core/dtype.h"

#include <string>
#include <utility>

#include "core/ambient.h"
#include "core/error.h"

namespace mt {

DType real_dtype(DType dtype) { return dtype == DType::C64 ? DType::F32 : dtype == DType::C128 ? DType::F64 : dtype; }
DType complex_dtype(DType dtype) { return dtype == DType::F64 || dtype == DType::C128 ? DType::C128 : DType::C64; }

DType promote(DType a, DType b) {
    if (a == b) return a;
    DType left = a, right = b;
    const DTypeInfo *x = &info(a), *y = &info(b);
    if (x->category < y->category) {
        std::swap(a, b);
        std::swap(x, y);
    }
    if (is_float8(left) || is_float8(right)) {
        fail(std::string("Promotion for Float8 Types is not supported, attempted to promote ") + torch_type_name(left) +
             " and " + torch_type_name(right));
    }
    // PyTorch's uint16, uint32 and uint64 only know themselves and the floating-point types.
    auto lonely = [](DType dtype) { return dtype == DType::U16 || dtype == DType::U32 || dtype == DType::U64; };
    if ((lonely(a) || lonely(b)) && x->category != kFloating) {
        fail(std::string("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote ") +
             torch_type_name(left) + " and " + torch_type_name(right));
    }
    if (x->category == kComplex) {
        bool wide = a == DType::C128 || b == DType::C128 || b == DType::F64;
        return wide ? DType::C128 : DType::C64;
    }
    if (x->category > y->category) return a;
    if (x->category == kFloating) {
        if (x->itemsize != y->itemsize) return x->itemsize > y->itemsize ? a : b;
        return DType::F32;  // float16 with bfloat16
    }
    if (x->is_signed == y->is_signed) return x->itemsize > y->itemsize ? a : b;
    // uint8 with a signed type: int16 holds both, unless that one is wider still.
    DType signed_one = x->is_signed ? a : b;
    return signed_one == DType::I8 ? DType::I16 : signed_one;
}

bool can_cast(DType from, DType to) {
    const DTypeInfo &x = info(from), &y = info(to);
    return x.category <= y.category || (x.category == kInteger && y.category == kInteger);
}

DType ResultType::get(const Ambient& ambient) const {
    auto category = [](int slot) { return slot < 0 ? -1 : static_cast<int>(info(static_cast<DType>(slot)).category); };
    auto combine = [&](int higher, int lower) {
        if (higher < 0) return lower;
        if (lower < 0 || category(higher) >= category(lower)) return higher;
        // The lower priority brings the category, and the default floating type its width.
        if (category(higher) == kFloating && category(lower) == kComplex)
            return static_cast<int>(promote(static_cast<DType>(higher), DType::C64));
        // The one lower pair that is promoted: bool, which is in no type's way but PyTorch's lonely ones.
        if (higher == static_cast<int>(DType::Bool))
            return static_cast<int>(promote(DType::Bool, static_cast<DType>(lower)));
        return lower;
    };
    int result = combine(combine(dim_, zero_), scalar_);
    return result < 0 ? ambient.default_dtype() : static_cast<DType>(result);
}

}  // namespace mt
