// Parts of a kernel, on the threads of the device. Included by the parts whose kernels split
// themselves.

/// Calls body(part) for each part below `count`. A part may use the scratches of its thread; the
/// caller's scratches that parts read must not be among them.
template <typename Body>
void inParts(int64_t count, const Body& body) {
  if (count == 1) return body(int64_t{0});
  runParts(count, [](void* of, int64_t part) { (*static_cast<const Body*>(of))(part); },
           const_cast<void*>(static_cast<const void*>(&body)));
}
