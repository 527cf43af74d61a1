// Memory that a thread of its own touches before it is needed. The first touch of fresh memory takes the system as long
// as much arithmetic: about 0.2 ms for 2 MB, and many times that where a virtual machine's host has to find them first.
#pragma once

#include <cstddef>

namespace mt {

// Begins to touch a block of this many bytes, at most kMostAhead, that a later take_ahead gives out. Does nothing where
// it wouldn't help: less than a huge page, one thread, or a larger block is there already.
void touch_ahead(size_t nbytes);
inline constexpr size_t kMostAhead = size_t{256} << 20;

// The block, which is the caller's from here on, if it has room for `nbytes`; `size` is what it was allocated with. It
// may still be touched, which changes no contents. Null if there is none; one that is too small is given back.
void* take_ahead(size_t nbytes, size_t* size);

// To be called before a block from take_ahead is deallocated: nothing touches it any more.
void finish_ahead() noexcept;

// Gives a block that nobody took back.
void drop_ahead() noexcept;

// What nobody took yet: its bytes, 0 for none.
size_t bytes_ahead() noexcept;

}  // namespace mt
