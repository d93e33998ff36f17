// Errors as an API: codes, recoveries, records, exports; and errors without another test.

import test from "ava";
import { ActorFailedError, failureOf } from "../../actors/runtime/incident.ts";
import {
  type ErrorRecord,
  InputUnusableError,
  InvalidOptionError,
  PeerLostError,
  RemoteError,
  RestartLimitError,
  recordError,
  StoreFailedError,
  TrainingError,
} from "../../src/errors/errors.ts";
import { resolveJob } from "../../src/job/job.ts";
import { smallData, smallModel, startTestCluster } from "../helpers/clusters/clusters.ts";

test.serial(
  "a non-finite loss ends the run, and a run cancelled in time never starts",
  async (t) => {
    await using place = await startTestCluster(1);
    const [first, second] = [
      await place.cluster.submit(
        place.job({ optimizer: { dense: { kind: "sgd", learningRate: 1e30 } } }),
      ),
      await place.cluster.submit(place.job()),
    ];
    await second.cancel();
    await t.throwsAsync(second.result(), { instanceOf: RemoteError, code: "RUN_CANCELLED" });
    t.is((await second.status()).status, "cancelled");
    const error = await t.throwsAsync(first.result(), { instanceOf: RemoteError });
    t.is(error?.code, "NON_FINITE_LOSS");
    t.is(error?.recovery, "stop", "the run is not restarted");
    t.regex(
      error?.message ?? "",
      /The loss of (`\w+` in )?step \d+ is NaN( from sample [\d, ]+ of the batch)?(, first in [^;]+)?; lower the learning rate or check the data/,
    );
  },
);

test("an error keeps its code, recovery and fields across threads and the wire", (t) => {
  const error = new PeerLostError("device:1", "killed", { cause: new RangeError("a bug") });
  const record = JSON.parse(JSON.stringify(recordError(error))) as ErrorRecord;
  t.deepEqual(record, {
    name: "PeerLostError",
    code: "PEER_LOST",
    recovery: "restore",
    message: "Lost device:1: killed",
    cause: "RangeError: a bug",
    actor: "device:1",
  });
  const remote = new RemoteError(record);
  t.true(remote instanceof TrainingError);
  t.deepEqual(recordError(remote), record);
});

test("an unknown error has the recovery `restore`, which the restart limit bounds", (t) => {
  t.like(recordError(new TypeError("a bug")), {
    name: "TypeError",
    code: "UNKNOWN",
    recovery: "restore",
    message: "a bug",
  });
  t.like(recordError("a string"), { name: "Error", code: "UNKNOWN", message: "a string" });
});

test("control characters of messages, causes and table names do not reach a terminal", (t) => {
  const foul = "a\u001b]0;x\u0007\n\tb\u009b";
  const shown = "a\\x1b]0;x\\x07\n\tb\\x9b";
  t.is(new InputUnusableError("a", foul).message, shown);
  t.like(recordError(new Error(foul, { cause: foul })), { message: shown, cause: shown });
  const table = { name: foul, rows: 10, dim: 8 };
  const column = { kind: "csv", paths: ["a"], label: foul, batchSize: 8 } as const;
  for (const wrong of [{ model: { ...smallModel, tables: [table] } }, { data: column }]) {
    const job = { model: smallModel, data: smallData, ...wrong };
    t.throws(() => resolveJob(job), { instanceOf: InvalidOptionError, message: /control char/ });
  }
});

test("an error that wraps another includes its message", (t) => {
  const cause = new Error("ENOSPC: no space left on device");
  const store = new StoreFailedError("write", "/c/part", { cause });
  t.is(store.message, "Cannot write /c/part: ENOSPC: no space left on device");
  t.is(store.path, "/c/part");
  const limit = new RestartLimitError("job", 3, 1000, { cause: store });
  t.is(limit.message, `Gave up after 3 restarts within 1 s; the last failure: ${store.message}`);
  t.is(limit.cause, store);
});

test("the first failure that names an offender stays the cause through all supervisors", (t) => {
  const at = { offender: "device:1", supervisor: "generation", context: "running" };
  const first = failureOf(new PeerLostError("device:1", "killed"), at);
  t.true(first instanceof ActorFailedError);
  t.is(first.code, "PEER_LOST");
  t.is(failureOf(first, { ...at, offender: "host:0" }), first);
  t.is(first.message, "device:1 failed: Lost device:1: killed");
});
