// Gives predictions access to the weights of a single-device model.

import assert from "node:assert/strict";
import { swapAverage } from "../../src/model/dense-optimizer.ts";
import type { ServedRows, ServedTable } from "../../src/serving/scorer.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import { tableOf } from "../../src/training/topology/topology.ts";

/** All rows of a device that holds whole tables. The memory is shared with the device. */
export function rowsOfDevice(device: DeviceState): ServedRows {
  const { slab, replicas, distinct, ids, topology, trained } = device;
  const { tables } = topology.input.model;
  return {
    steps: trained.steps,
    tables: tables.map((spec, table): ServedTable => {
      for (const own of [slab, replicas, ...distinct.slabs]) {
        const at = own.shards.findIndex((shard) => shard.table === table);
        const rows = own.rowsOf[at];
        if (rows === undefined) continue;
        const { rows: count, dim } = tableOf(tables, table);
        assert(rows.rows === count && rows.dim === dim, "a device alone has whole tables");
        const find = own === slab ? ids[at]?.reading : undefined;
        return { rows, places: undefined, base: 0, find };
      }
      throw new RangeError(`The device has no rows of table ${spec.name}`);
    }),
  };
}

/** A copy of a device's dense parameters, or of their moving averages if it has them. */
export function denseOfDevice(device: DeviceState): Float32Array {
  const { kernels, network, denseState, recipe, topology } = device;
  const { layout } = topology.graph;
  const swap = () => swapAverage(kernels, recipe.optimizer.dense, denseState, layout, network.flat);
  swap();
  try {
    return kernels.read(network.flat);
  } finally {
    swap();
  }
}
