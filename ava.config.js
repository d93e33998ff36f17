// How ava runs the tests. Two files run at a time on two cores. The long files come first, so that
// no core waits for one of them at the end.

/** Beginnings of paths, the longest files first; all others follow in order of their names. */
const first = [
  "chaos/processes/",
  "chaos/simulation/",
  "chaos/trials/",
  "chaos/runs/",
  "actors/cluster/",
];

const rankOf = (file) => {
  const rank = first.findIndex((start) => file.includes(`/dist/test/${start}`));
  return rank === -1 ? first.length : rank;
};

export default {
  files: ["dist/test/**/*.test.js"],
  timeout: "10m",
  require: ["./dist/test/runner/file-notes.js"],
  sortTestFiles: (a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1),
};
