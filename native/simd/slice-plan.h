// The tree over the slices of a batch: which sums of slices are added, and in which order. Weight
// gradients and gradients of rows use the same tree, so that the bits of a sum do not depend on the
// number of devices that share the slices.

/// What to do with the sum of a slice: first add `lefts` sums from the top of a stack, which has
/// finished left neighbours; then output the result, if it is the last of its subtree, or push it.
struct SlicePlan {
  int64_t subtree;  // index of the output
  bool last;        // whether the sum finishes the subtree
  int64_t slot;     // stack index of the result, if not; the lefts are in slots `slot` and after it
  int64_t lefts;    // number of sums to add from the stack
};

inline int64_t planSlices(SlicePlan* plan, const Slices& slices) {
  int64_t subtree = 0;
  for (int64_t at = 0; at < slices.count; subtree++) {
    const int64_t first = slices.first + at;
    int64_t count = 1;
    while (count * 2 <= slices.most && first % (count * 2) == 0 && at + count * 2 <= slices.count) {
      count *= 2;
    }
    for (int64_t i = 0; i < count; i++, at++) {
      const int64_t lefts = __builtin_ctzll(~static_cast<uint64_t>(i));
      const int64_t waiting = __builtin_popcountll(static_cast<uint64_t>(i));
      plan[at] = {subtree, i == count - 1, waiting - lefts, lefts};
    }
  }
  return subtree;
}
