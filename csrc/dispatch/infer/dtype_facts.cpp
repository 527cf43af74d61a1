#include "dispatch/infer/dtype_facts.h"

namespace mt {

const char* c_type_name(DType dtype) {
    static constexpr const char* names[] = {"bool",
                                            "uint8_t",
                                            "int8_t",
                                            "uint16_t",
                                            "int16_t",
                                            "uint32_t",
                                            "int",
                                            "uint64_t",
                                            "int64_t",
                                            "c10::Half",
                                            "c10::BFloat16",
                                            "float",
                                            "double",
                                            "c10::complex<float>",
                                            "c10::complex<double>",
                                            "c10::Float8_e4m3fn",
                                            "c10::Float8_e4m3fnuz",
                                            "c10::Float8_e5m2",
                                            "c10::Float8_e5m2fnuz",
                                            "c10::Float8_e8m0fnu"};
    return names[static_cast<size_t>(dtype)];
}

double largest(DType dtype) {
    switch (dtype) {
        case DType::F16: return 65504.0;
        case DType::BF16: return 3.3895313892515355e38;
        case DType::F8E4M3FN: return 448.0;
        case DType::F8E4M3FNUZ: return 240.0;
        case DType::F8E5M2:
        case DType::F8E5M2FNUZ: return 57344.0;
        case DType::F8E8M0FNU: return 0x1p127;
        case DType::F32: return 3.4028234663852886e38;
        default: return 1.7976931348623157e308;
    }
}

}  // namespace mt
