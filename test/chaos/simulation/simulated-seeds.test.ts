// Seeds of simulated clusters, as `osiris chaos --simulate` runs them; two hundred in `npm run
// test:all`.

import test from "ava";
import { simulate } from "../../../index.ts";
import { simulateHere } from "../../helpers/simulated.ts";
import { rounds, someOrAll } from "../../helpers/thinned.ts";

const count = rounds("seeds of simulated clusters", 6, 200);
const seeds = Array.from({ length: count }, (_, i) => i + 1);

test.serial(
  `P4, P5, P6: ${count} fault schedules break no invariant, and every job ends`,
  async (t) => {
    const { faults, failures } = await simulateHere(seeds);
    t.deepEqual(failures, []);
    const injected = Object.values(faults).reduce((sum, count) => sum + count, 0);
    t.true(injected > 2 * count, `${injected} faults injected`);
    t.log(JSON.stringify(faults));
  },
);

const moves = rounds("seeds of shards that move", 2, 200);

test.serial(
  `${moves} schedules with moved, frozen and thawed shards while parts die: same model`,
  async (t) => {
    const kinds = ["run.move", "run.freeze", "run.scale", "thread.kill", "process.kill"] as const;
    const own = Array.from({ length: moves }, (_, i) => 2000 + i);
    const { faults, failures } = await simulateHere(own, kinds);
    t.deepEqual(failures, []);
    t.true((faults["run.move"] ?? 0) > moves / 4 && (faults["run.freeze"] ?? 0) > moves / 4);
    // Requested moves are executed: each of these two moves the shard to the other device.
    const speed = { turnMs: 0.1, startMs: 1 };
    const shape = { devices: [2], speed, delayMs: [0, 0.1] } as const;
    const twoMoves = [8, 16].map((atMs, device) => {
      return { kind: "run.move", atMs, shard: 0, device: 1 - device } as const;
    });
    for (const job of someOrAll("jobs whose shard moves", [0], [0, 1, 2, 4])) {
      const verdict = await simulate({ seed: 1, job, shape, faultsMs: 60, faults: twoMoves });
      t.is(verdict.failure, undefined, verdict.reason);
      t.true(
        verdict.last.some((line) => line.includes("run.moved")),
        `job ${job}`,
      );
    }
  },
);

const commands = rounds("seeds of readers that are told something", 2, 200);

test.serial(
  `${commands} schedules with limited and drained readers while parts die: same model`,
  async (t) => {
    const kinds = ["run.rate", "run.drain", "run.scale", "thread.kill", "process.kill"] as const;
    const own = Array.from({ length: commands }, (_, i) => 4000 + i);
    const { faults, failures } = await simulateHere(own, kinds);
    t.deepEqual(failures, []);
    t.log(JSON.stringify(faults));
    t.true((faults["run.rate"] ?? 0) > commands / 4 && (faults["run.drain"] ?? 0) > commands / 4);
    // The readers obey a rate limit and a drain, on one host and on two, and no generation is lost.
    const speed = { turnMs: 4, startMs: 1 };
    for (const devices of [[1], [1, 1]]) {
      const shape = { devices, speed, delayMs: [0, 0.1] } as const;
      const faults = [
        { kind: "run.rate", atMs: 20, times: 5 },
        ...devices.map((_, reader) => ({ kind: "run.drain", atMs: 300, reader }) as const),
      ] as const;
      const verdict = await simulate({ seed: 1, job: 0, shape, faultsMs: 400, faults });
      t.is(verdict.failure, undefined, verdict.reason);
      t.is(verdict.generations, 1);
      t.true(verdict.virtualMs > 1500, `80 samples a second, yet over in ${verdict.virtualMs} ms`);
      for (const event of ["run.limited", "run.drained"]) {
        t.true(
          verdict.last.some((line) => line.includes(event)),
          `${event} on ${devices}`,
        );
      }
    }
  },
);

const services = rounds("seeds of preprocessing services", 2, 300);

test.serial(
  `${services} schedules in which preprocessing workers, pools and masters die: same model`,
  async (t) => {
    const own = Array.from({ length: services }, (_, i) => 6009 + i);
    const onService = (seed: number) => ({ job: 13 + (seed % 2) });
    const { faults: kinds, failures } = await simulateHere(own, undefined, onService);
    t.deepEqual(failures, []);
    t.log(JSON.stringify(kinds));
    t.true(Object.values(kinds).reduce((sum, count) => sum + count, 0) > 2 * services);
    // Only the actors of the service restart, and no generation fails.
    const shape = { devices: [1, 1], speed: { turnMs: 4, startMs: 1 }, delayMs: [0, 0.1] } as const;
    const faults = [
      { kind: "actor.throw", atMs: 200, role: "master", index: 0 },
      { kind: "actor.throw", atMs: 300, role: "master", index: 0 },
    ] as const;
    const verdict = await simulate({ seed: 1, job: 13, shape, faultsMs: 500, faults });
    t.is(verdict.failure, undefined, verdict.reason);
    t.like(verdict, { generations: 1, injected: { "actor.throw": 2 } });
  },
);
