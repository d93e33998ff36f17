// The programs of threads as a dozen files instead of 130 modules, so that a thread starts in half
// of the processor time (docs/decisions/0019-threads-load-rollups.md). Packages stay where
// they are, and so does build-native.js, which finds the addon by its own place.

// Rollup would write its path as from the entry's folder, which is one deeper than that of the output.
const pathsOf = (id) =>
  id.endsWith("/build-native.js") ? "../src/kernels/native/build-native.js" : id;

export default {
  input: [
    "dist/actors/threads/thread-entry.js",
    "dist/chaos/faults/breaking-entry.js",
    "dist/chaos/faults/faulty-entry.js",
  ],
  external: (id) => /^[^./]/.test(id) || id.endsWith("/build-native.js"),
  output: { dir: "dist/threads", experimentalMinChunkSize: 60_000, chunkFileNames: "[name].js", paths: pathsOf },
  onwarn(warning, warn) {
    // The compiler's own helper, at the top of a module that imports by a name it computes.
    if (warning.code !== "THIS_IS_UNDEFINED") warn(warning);
  },
};
