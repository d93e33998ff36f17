// The checkpoint coordinator alone, in simulated time.

import test from "ava";
import { checkpointCoordinatorMachine } from "../../../../actors/run/control/checkpoint-coordinator.ts";
import { Registry } from "../../../../actors/run/state/registry.ts";
import { StoreFailedError } from "../../../../src/errors/errors.ts";
import { missingParts } from "../../../../src/training/checkpoint/part-names.ts";
import {
  scope,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../../helpers/clusters/actors.ts";

const self = { role: "checkpoint", index: 0 } as const;
const cutOf = (command: number) => ({
  ...{ command, cut: 10 * command, arithmetic: "native-3", best: false, metrics: {} },
  sets: ["avx2", "neon"],
});

test("a cut is saved once, by the requested devices, and an older cut is never saved", async (t) => {
  // The store becomes unreachable after the commit, and training continues.
  const collect = () => {
    throw new StoreFailedError("remove", "s3://bucket/run/checkpoints");
  };
  const place = startSimulatedNetwork();
  const { network, say, heard, pass } = place;
  const { job, hosts } = smallGenerationSpec();
  const record = new Registry("r", () => {}).add(job);
  const committed = { cut: 30, modelDigest: "d", sha256: "m", parts: [] };
  const remote = { directory: "s3://bucket/run", isRemote: true, within: () => remote };
  const manifests: unknown[] = [];
  const commit = (manifest: unknown) => {
    manifests.push(manifest);
    return committed;
  };
  const store = Object.assign(remote, { commit, collect }) as never;
  const input = { network, scope, job, hosts, record, store, latest: undefined };
  const { ends } = startActor(place, checkpointCoordinatorMachine, input);
  const saves = () => heard({ role: "device", index: 0 }).map(({ body }) => body);
  const taken = () => heard({ role: "coordinator", index: 0 }).map(({ body }) => body);
  const takenBy = (device: number, stallMs: number) =>
    say(self, "device.cut", { command: 3, device, cut: 30, stallMs });

  say(self, "checkpoint.cut", cutOf(3));
  await pass(0);
  takenBy(0, 1);
  takenBy(7, 1); // Not requested.
  await pass(0);
  t.deepEqual(taken(), []);
  takenBy(1, 2);
  await pass(0);
  t.deepEqual(taken(), [{ command: 3, cut: 30, stallMs: 2 }]);
  const file = {
    file: "pack-d0-00000",
    at: 0,
    bytes: 1,
    sha256: "0".repeat(64),
    base: [],
    leaves: ["0".repeat(64)],
  };
  const parts = missingParts([], job.model.tables).map((name) => ({ name, ...file }));
  const savedOf = (parts: readonly object[]) =>
    say(self, "part.saved", { cut: 30, device: 0, of: 4, parts });
  t.is(parts.length, 4);
  savedOf(parts.slice(0, 2));
  savedOf(parts.slice(0, 2)); // Repeated, as a message may be lost.
  await pass(0);
  t.is(taken().length, 1, "a part is missing");
  savedOf(parts.slice(2));
  await pass(0);
  t.is(taken().length, 2, "cut 30 is committed");
  t.like(manifests[0], { cut: 30, arithmetic: "native-3", sets: ["avx2", "neon"] });
  const alert = { type: "run.alert", code: "CHECKPOINT_STORE_AWAY", step: 30 };
  t.like(record.since(0, 100).at(-1), alert);
  say(self, "checkpoint.cut", cutOf(2)); // A delayed message.
  await pass(0);
  t.deepEqual(saves(), [{ command: 3, cut: 30, isBaseline: true }]);
  t.is(ends.error, undefined);
});
