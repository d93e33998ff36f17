// Vectors that are sent in pieces while others are written: the bytes of a piece do not change
// later, and the model is that of one device. test/exchange/bridge.test.ts tests their arrival.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { AllToAll, Exchange } from "../../../src/exchange/exchange.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { createDeviceState } from "../../../src/training/step/device-state.ts";
import { trainStep } from "../../../src/training/step/step.ts";
import { exchangeShapeOf } from "../../../src/training/topology/exchange-shape.ts";
import { exactExchange, topologyOf } from "../../../src/training/topology/topology.ts";
import { startBridgedHosts } from "../../exchange/bridged-hosts.ts";
import { generatedBatches } from "../../helpers/batches/generated-batches.ts";
import { localPart, startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { leavesOfParts } from "../../helpers/devices/parts.ts";

const hostOf = [0, 1, 1];
const batchSize = 1500;
const kernels = () => openKernels("auto");

interface Left {
  /** Calls of `sendAhead`: each allows more bytes of a part to be sent. */
  pieces: number;
  readonly wrong: string[];
}

/** A channel that compares the bytes at `sendAhead` with the same bytes at the round's start. */
function watched(channel: AllToAll, left: Left): AllToAll {
  let pieces: { readonly to: number; readonly bytes: Uint8Array; readonly total: number }[] = [];
  return {
    ...channel,
    sendAhead(to, bytes, total) {
      const { buffer, byteOffset } = channel.outbox(to);
      pieces.push({ to, bytes: new Uint8Array(buffer, byteOffset, bytes).slice(), total });
      left.pieces++;
      channel.sendAhead(to, bytes, total);
    },
    start(used) {
      for (const { to, bytes, total } of pieces) {
        const { buffer, byteOffset, byteLength } = channel.outbox(to);
        const now = Buffer.from(buffer, byteOffset, bytes.length);
        if (!now.equals(bytes)) left.wrong.push(`to ${to}: ${bytes.length} bytes have changed`);
        if ((used?.(to) ?? byteLength) !== total) left.wrong.push(`to ${to}: not ${total} bytes`);
      }
      pieces = [];
      channel.start(used);
    },
  };
}

for (const [title, formats, table] of [
  ["as they are pooled", exactExchange, {}],
  ["in fewer bits", { forward: "float16", backward: "float8e5m2" }, {}],
  ["in columns and row blocks", exactExchange, { sharding: "grid", rowBlocks: 4 }],
] as const) {
  test(`vectors that are sent in pieces train the same bits: ${title}`, async (t) => {
    const tables = Array.from({ length: 6 }, (_, i) => {
      return { name: `T${i}`, rows: 60, dim: 256, ...table };
    });
    const layers = { bottom: [8, 256], top: [4, 1] };
    const model = modelOptions.parse({ kind: "dlrm", dense: 4, tables, ...layers });
    const exchange = { ...exactExchange, ...formats };
    const input = { model, batchSize, slices: 8, idsMax: tables.map(() => 1), exchange };
    const optimizer = optimizerOf({ kind: "sgd" }, { kind: "sgd" });
    const recipe = { optimizer, seed: 3 };
    const batches = generatedBatches({ batchSize, batches: 2, dense: 4, tables }, 1);
    const topology = topologyOf(input, hostOf.length, hostOf);
    const hosts = startBridgedHosts({ shape: exchangeShapeOf(topology), hostOf, seed: 1 });
    const left: Left = { pieces: 0, wrong: [] };
    const states = hosts.exchanges.map((own, rank) => {
      const [pooled, dPooled] = [watched(own.pooled, left), watched(own.dPooled, left)];
      const exchanged: Exchange = { ...own, pooled, dPooled };
      return createDeviceState({ rank, topology, recipe, kernels: kernels(), exchange: exchanged });
    });
    await hosts.run(async ({ rank }) => {
      for (const [step, batch] of batches.entries()) {
        const state = states[rank];
        if (state !== undefined) await trainStep(state, localPart(topology, rank, batch), step, -1);
      }
    });
    t.deepEqual(left.wrong, []);
    // More pieces than parts: each device sends each one vectors and gradients in two steps.
    t.true(left.pieces > 2 * batches.length * hostOf.length ** 2, `${left.pieces}`);
    const alone = startLocalDevices({ input, recipe, devices: 1, kernels });
    for (const [step, batch] of batches.entries()) await alone.train(batch, step);
    t.is(digestOf(await leavesOfParts(states), model.tables), await alone.digest());
  });
}
