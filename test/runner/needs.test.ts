// A test with an unmet need is skipped and listed with its reason, except for the needs that CI
// must meet: a nats-server, the native kernels, RocksDB. Without one of these CI fails, wherever
// the clone lies.

import test from "ava";
import {
  dataFile,
  type Need,
  nativeKernels,
  natsServer,
  outcomeOf,
  rocksDb,
} from "../helpers/needs.ts";
import { listTree, textOf } from "../helpers/tree.ts";

const missing = (need: Need): Need => ({ ...need, isMet: () => false });
const met = (need: Need): Need => ({ ...need, isMet: () => true });

for (const [name, need] of Object.entries({ natsServer, nativeKernels, rocksDb })) {
  test(`without ${name} CI fails; elsewhere the test is skipped`, (t) => {
    const { reason } = need;
    t.deepEqual(outcomeOf([met(need), missing(need)], { isCi: true }), { fails: reason });
    t.deepEqual(outcomeOf([met(need), missing(need)], { isCi: false }), { skipped: reason });
  });
}

test("a test of missing real data is skipped in CI too, with their path", (t) => {
  const reason = "../shared/data/no/such.csv.gz is not here.";
  t.deepEqual(outcomeOf([dataFile("no/such.csv.gz")], { isCi: true }), { skipped: reason });
});

test("a test whose needs are met runs", (t) => {
  t.is(outcomeOf([met(natsServer)], { isCi: true }), "runs");
  t.is(outcomeOf([], { isCi: false }), "runs");
});

test("no test is skipped except by its needs", (t) => {
  const probes =
    /hasNatsServer\(|hasNamespaces\(|\btest(\.\w+)*\.skip\b|"\.\.\/shared|`\.\.\/shared/;
  const own = /^test\/(helpers\/(needs|nats\/.*)|runner\/.*|fuzz\/tenant-targets)\.ts$/;
  const wrong = listTree().filter(
    (path) =>
      /^(test|packages\/\w+\/test)\/.*\.ts$/.test(path) &&
      !own.test(path) &&
      probes.test(textOf(path)),
  );
  t.deepEqual(wrong, []);
});
