// Dtypes that are names only: programs compare with them and look them up in tables; there are no tensors of them.
#pragma once

#include "core/dtype.h"

namespace mt::py {

struct NamedDType {
    DTypeInfo info;
    const char* abbreviation;
};

inline constexpr NamedDType kNamedDTypes[] = {
    {{"complex32", "c32", "", 4, kComplex, true, ""}, "c32"},
    {{"float4_e2m1fn_x2", "f4e2m1fn", "", 1, kFloating, true, ""}, "f4e2m1fnx2"},
    {{"int1", "s1", "", 1, kInteger, true, ""}, "int1"},
    {{"int2", "s2", "", 1, kInteger, true, ""}, "int2"},
    {{"int3", "s3", "", 1, kInteger, true, ""}, "int3"},
    {{"int4", "s4", "", 1, kInteger, true, ""}, "int4"},
    {{"int5", "s5", "", 1, kInteger, true, ""}, "int5"},
    {{"int6", "s6", "", 1, kInteger, true, ""}, "int6"},
    {{"int7", "s7", "", 1, kInteger, true, ""}, "int7"},
    {{"uint1", "u1", "", 1, kInteger, false, ""}, "uint1"},
    {{"uint2", "u2", "", 1, kInteger, false, ""}, "uint2"},
    {{"uint3", "u3", "", 1, kInteger, false, ""}, "uint3"},
    {{"uint4", "u4", "", 1, kInteger, false, ""}, "uint4"},
    {{"uint5", "u5", "", 1, kInteger, false, ""}, "uint5"},
    {{"uint6", "u6", "", 1, kInteger, false, ""}, "uint6"},
    {{"uint7", "u7", "", 1, kInteger, false, ""}, "uint7"},
    {{"bits1x8", "", "", 1, kOtherCategory, false, ""}, "b1x8"},
    {{"bits2x4", "", "", 1, kOtherCategory, false, ""}, "b2x4"},
    {{"bits4x2", "", "", 1, kOtherCategory, false, ""}, "b4x2"},
    {{"bits8", "", "", 1, kOtherCategory, false, ""}, "b8x1"},
    {{"bits16", "", "", 2, kOtherCategory, false, ""}, "b16x1"},
    {{"quint8", "", "", 1, kOtherCategory, false, ""}, "quint8"},
    {{"qint8", "", "", 1, kOtherCategory, true, ""}, "qint8"},
    {{"qint32", "", "", 4, kOtherCategory, true, ""}, "qint32"},
    {{"quint4x2", "", "", 1, kOtherCategory, false, ""}, "quint4x2"},
    {{"quint2x4", "", "", 1, kOtherCategory, false, ""}, "quint2x4"},
};

}  // namespace mt::py
