// The tree over the slices of a batch: which sums of slices are added, and in which order. Weight
// gradients and gradients of rows use the same tree, so that the bits of a sum do not depend on the
// number of devices that share the slices.

/// The position of slice `i` of a call in its subtree, and what its sum is merged with.
struct SlicePlan {
  int64_t subtree;  // which output
  bool last;        // its sum finishes the subtree
  int64_t slot;     // else where it waits, in a stack of finished left neighbours
  int64_t lefts;    // how many of the stack's top it takes up first
};

inline int64_t planSlices(SlicePlan* plan, const Slices& slices) {
  int64_t subtree = 0;
  for (int64_t at = 0; at < slices.count; subtree++) {
    const int64_t first = slices.first + at;
    int64_t count = 1;
    while (first % (count * 2) == 0 && at + count * 2 <= slices.count) count *= 2;
    for (int64_t i = 0; i < count; i++, at++) {
      const int64_t lefts = __builtin_ctzll(~static_cast<uint64_t>(i));
      const int64_t waiting = __builtin_popcountll(static_cast<uint64_t>(i));
      plan[at] = {subtree, i == count - 1, waiting - lefts, lefts};
    }
  }
  return subtree;
}
