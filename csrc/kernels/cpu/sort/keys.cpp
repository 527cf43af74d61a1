#include <type_traits>

#include "kernels/cpu/sort/sort.h"

namespace mt::cpu {

namespace {

// Numbers with a sign bit and a magnitude, as floating-point formats are: negative ones turn round.
template <class Bits, Bits Infinity>
struct FloatKey {
    using Element = Bits;
    static constexpr Bits sign = Bits(1) << (sizeof(Bits) * 8 - 1);
    static Bits key(Bits bits) {
        Bits magnitude = bits & static_cast<Bits>(~sign);
        Bits turned = bits & sign ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | sign);
        turned = magnitude ? turned : sign;
        return magnitude > Infinity ? static_cast<Bits>(~Bits(0)) : turned;
    }
};
template <class T>
struct SignedKey {
    using Element = std::make_unsigned_t<T>;
    static Element key(Element x) { return x ^ static_cast<Element>(Element(1) << (sizeof(T) * 8 - 1)); }
};
template <class T>
struct UnsignedKey {
    using Element = T;
    static T key(T x) { return x; }
};

template <class Key, class Rule>
void load(Key* keys, const void* data, int64_t stride, int64_t n, bool descending) {
    using Element = typename Rule::Element;
    auto* p = static_cast<const Element*>(data);
    Element flip = descending ? static_cast<Element>(~Element(0)) : Element(0);
    if (stride == 1)
        for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<Element>(Rule::key(p[i]) ^ flip);
    else
        for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<Element>(Rule::key(p[i * stride]) ^ flip);
}

}  // namespace

template <class Key>
void load_keys(Key* keys, DType dtype, const void* data, int64_t stride, int64_t n, bool descending) {
    auto with = [&](auto rule) { load<Key, decltype(rule)>(keys, data, stride, n, descending); };
    switch (dtype) {
        case DType::Bool:
        case DType::U8: return with(UnsignedKey<uint8_t>());
        case DType::I8: return with(SignedKey<int8_t>());
        case DType::U16: return with(UnsignedKey<uint16_t>());
        case DType::I16: return with(SignedKey<int16_t>());
        case DType::U32: return with(UnsignedKey<uint32_t>());
        case DType::I32: return with(SignedKey<int32_t>());
        case DType::F16: return with(FloatKey<uint16_t, 0x7C00>());
        case DType::BF16: return with(FloatKey<uint16_t, 0x7F80>());
        case DType::F32: return with(FloatKey<uint32_t, 0x7F800000>());
        default: break;
    }
    if constexpr (sizeof(Key) == 8) {
        switch (dtype) {
            case DType::U64: return with(UnsignedKey<uint64_t>());
            case DType::I64: return with(SignedKey<int64_t>());
            default: return with(FloatKey<uint64_t, 0x7FF0000000000000>());
        }
    }
}

template <class Key>
Key nan_key(DType dtype, bool descending) {
    if (descending) return 0;
    size_t bits = itemsize(dtype) * 8;
    return bits >= sizeof(Key) * 8 ? static_cast<Key>(~Key(0)) : static_cast<Key>((Key(1) << bits) - 1);
}

template void load_keys(uint32_t*, DType, const void*, int64_t, int64_t, bool);
template void load_keys(uint64_t*, DType, const void*, int64_t, int64_t, bool);
template uint32_t nan_key(DType, bool);
template uint64_t nan_key(DType, bool);

}  // namespace mt::cpu
