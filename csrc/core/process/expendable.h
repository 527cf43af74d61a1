// Calls of libraries that end the process where they could have failed.
#pragma once

namespace mt {

// Runs body(argument) on a thread of its own and waits for it. If that ends in abort(), exit() or a signal as of a wild
// access, the thread stays where it is for ever, with all that it holds, and the result is the signal's number (0 for
// exit()); -1 if body returned.
int run_expendable(void (*body)(void*), void* argument);

}  // namespace mt
