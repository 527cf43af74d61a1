// The text of an op's schema, as "name(Tensor a, int[] size, *, float p=0.5)".
#pragma once

#include <string>

#include "dispatch/registry.h"

namespace mt {

// An op's name, arguments and defaults. An error says what is wrong with the text.
OpDef parse_schema(const std::string& schema);

}  // namespace mt
