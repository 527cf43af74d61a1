// How scans read and write elements: they compute in a wider type than their results'.
#pragma once

#include <complex>

#include "core/dtype.h"

namespace mt::cpu {

template <class T>
struct Element {
    template <class Acc>
    static Acc load(T x) {
        return static_cast<Acc>(x);
    }
    template <class Acc>
    static T store(Acc x) {
        return static_cast<T>(x);
    }
};
template <class T>
struct ComplexElement {
    template <class Acc>
    static Acc load(T x) {
        return {x.re, x.im};
    }
    template <class Acc>
    static T store(Acc x) {
        return {static_cast<decltype(T::re)>(x.real()), static_cast<decltype(T::im)>(x.imag())};
    }
};
template <>
struct Element<complex64> : ComplexElement<complex64> {};
template <>
struct Element<complex128> : ComplexElement<complex128> {};

}  // namespace mt::cpu
