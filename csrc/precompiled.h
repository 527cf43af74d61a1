// The headers that most files read, which setup.py compiles once. Every file includes what it needs all the same: it
// must compile without this one. It needs no guard, being the first thing that is read.

// libstdc++'s special functions (std::beta ...), which nothing uses: every file would instantiate them anew.
#define _GLIBCXX_BITS_SPECFUN_H 1

#include <Python.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>
