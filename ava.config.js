// How ava runs the tests. One file more than there are cores runs at a time: tests of processes wait
// for leases and deadlines. The long files come first, so that no core waits for one of them at the
// end.

import { availableParallelism } from "node:os";

/** Beginnings of paths, the longest files first; all others follow in order of their names. */
const first = [
  "chaos/processes/",
  "chaos/simulation/",
  "chaos/trials/",
  "chaos/runs/",
  "actors/cluster/",
  "training/step/",
  "wire/broker/protocol",
];

const rankOf = (file) => {
  const rank = first.findIndex((start) => file.includes(`/dist/test/${start}`));
  return rank === -1 ? first.length : rank;
};

export default {
  files: ["dist/test/**/*.test.js"],
  timeout: "10m",
  // Linux counts processor time by process, so that a profile needs one for each file.
  workerThreads: process.env.OSIRIS_TEST_PROFILE === undefined,
  concurrency: availableParallelism() + 1,
  // No plan of a run depends on what this machine was measured to do.
  environmentVariables: { OSIRIS_CONSTANTS: "v100" },
  require: ["./dist/test/runner/file-notes.js"],
  sortTestFiles: (a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1),
};
