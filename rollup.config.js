// The programs of threads as a dozen files instead of 130 modules, so that a thread starts in half
// of the processor time (docs/decisions/0019-threads-load-rollups.md). They are CommonJS, which Node
// reads and links at once: modules are found one after another. Packages stay where they are.

export default {
  input: [
    "dist/actors/threads/thread-entry.js",
    "dist/chaos/faults/breaking-entry.js",
    "dist/chaos/faults/faulty-entry.js",
  ],
  external: (id) => /^[^./]/.test(id),
  output: {
    ...{ dir: "dist/threads", format: "cjs", experimentalMinChunkSize: 60_000 },
    ...{ entryFileNames: "[name].cjs", chunkFileNames: "[name].cjs" },
  },
  onwarn(warning, warn) {
    // The compiler's own helper, at the top of a module that imports by a name it computes.
    if (warning.code !== "THIS_IS_UNDEFINED") warn(warning);
  },
};
