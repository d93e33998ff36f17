// How ava runs the tests: each compiled file separately, as in `npx ava FILE`, or, in `npm test`,
// the files of a room rolled up into one (test/runner/rooms.ts). One file more than there are cores
// runs at a time, as tests of processes wait for leases and deadlines. The longest rooms come
// first, so that no core idles at the end.

import { availableParallelism } from "node:os";

/**
 * Rooms that run longest, by processor time; all others follow by name. Rooms that mostly wait come
 * early, beside those that compute: at the end they would wait alone.
 */
const first = [
  ...["chaos", "others", "actors", "cli", "chaos-processes", "training"],
  ...["chaos-simulation", "wire", "data", "storage"],
];

const rankOf = (file) => {
  const rank = first.findIndex((room) => file.endsWith(`/dist/rooms/${room}.test.js`));
  return rank === -1 ? first.length : rank;
};

const areRooms = process.env.OSIRIS_TEST_ROOMS !== undefined;

export default {
  files: areRooms ? ["dist/rooms/*.test.js"] : ["dist/test/**/*.test.js", "dist/packages/*/test/**/*.test.js"],
  timeout: "10m",
  // Linux counts processor time by process, so that a profile needs a process for each file.
  workerThreads: process.env.OSIRIS_TEST_PROFILE === undefined,
  concurrency: availableParallelism() + 1,
  // Fixed constants: no plan of a run depends on measurements of this machine.
  environmentVariables: { OSIRIS_CONSTANTS: "v100" },
  require: ["./dist/test/runner/file-notes.js"],
  sortTestFiles: (a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1),
};
