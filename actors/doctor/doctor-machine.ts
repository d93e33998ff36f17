// The doctor's checks of this machine: Node, kernels, cores, memory, limits, clock, and the disks
// of a job's directories.

import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join, resolve } from "node:path";
import { rowStateWidth } from "../../src/embedding/tables/row-state.ts";
import { InputUnusableError, InstructionSetError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { recordBytesOf } from "../../src/kernels/contract/records.ts";
import { kernelNotice, openKernels } from "../../src/kernels/index.ts";
import { addonOrigin } from "../../src/ports/addon.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { packageVersion } from "../../src/ports/entry-file.ts";
import { isObjectAddress } from "../../src/ports/object-store.ts";
import { memoryOfProcess } from "../../src/ports/process-memory.ts";
import { softLimit } from "../../src/wire/http/open-files.ts";
import { type DiskStore, storesOn } from "../../storage/tiers/records/open-records.ts";
import { persistedStores } from "../../storage/tiers/tier-store.ts";
import type { HostMemory } from "../threads/host-memory.ts";
import { tierHome } from "../threads/tier-program.ts";
import { type Check, check, judged, ms } from "./doctor-checks.ts";

/** The oldest Node version that is tested. */
const nodeMin = [20, 19] as const;
const filesMin = 256;
const filesUsual = 1024;
/** Most drift between the machine's clock and a monotonic clock during the check. */
const driftMsMax = 20;
const lookMs = 100;

/** Node, kernels, cores, limits and clock. */
export async function machineChecks(devices: number, clock: Clock): Promise<Check[]> {
  return [
    nodeCheck(),
    kernelCheck(),
    await storeCheck(),
    coreCheck(devices),
    ...limitChecks(),
    await clockCheck(clock),
  ];
}

function nodeCheck(): Check {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const isOld = major < nodeMin[0] || (major === nodeMin[0] && minor < nodeMin[1]);
  const found = `Node ${process.versions.node}, Osiris ${packageVersion()}`;
  return check("Node", isOld ? "fail" : "ok", found, `install Node ${nodeMin.join(".")} or newer`);
}

/** Checks the kernels: their arithmetic, and for native ones instruction set, compiler and file. */
function kernelCheck(): Check {
  let arithmetic: string;
  try {
    ({ arithmetic } = openKernels("auto"));
  } catch (error) {
    if (error instanceof InstructionSetError || error instanceof InputUnusableError) {
      return check("kernels", "fail", error.message);
    }
    throw error;
  }
  const notice = kernelNotice();
  const origin = addonOrigin();
  const found = [arithmetic];
  if (origin !== undefined) {
    const { set, compiler, path, isPrebuilt } = origin;
    found.push(set, compiler, `${isPrebuilt ? "shipped in" : "compiled here:"} ${path}`);
  }
  return check("kernels", notice === undefined ? "ok" : "warn", found.join(", "), notice);
}

/** Checks the default store for rows on disk. */
async function storeCheck(): Promise<Check> {
  const [usual] = await storesOn(realDisk);
  const why = `RocksDB has no binary for ${process.platform}-${process.arch}, or was not installed`;
  return check("SSD store", "ok", usual === "rocksdb" ? usual : `file: ${why}`);
}

function coreCheck(devices: number): Check {
  const cores = availableParallelism();
  const found = `${cores} for ${devices} devices`;
  const advice =
    "devices share cores, and each step waits for the slowest device: use fewer devices";
  return check("cores", devices > cores ? "warn" : "ok", found, advice);
}

function limitChecks(): Check[] {
  const files = softLimit("Max open files");
  const isFew = files < filesUsual ? "warn" : "ok";
  const shared = existsSync("/dev/shm")
    ? `${gibibytes(sizeOf("/dev/shm").total)} in /dev/shm`
    : "-";
  return [
    check(
      "open files",
      files < filesMin ? "fail" : isFew,
      String(files),
      `raise the limit: ulimit -n ${filesUsual}`,
    ),
    check("locked memory", "ok", `${softLimit("Max locked memory")} bytes; Osiris locks no memory`),
    check("shared memory", "ok", `${shared}; threads share the memory of their process`),
  ];
}

async function clockCheck(clock: Clock): Promise<Check> {
  const [shown, even] = [clock.date().getTime(), clock.now()];
  await new Promise<void>((resume) => clock.after(lookMs, resume));
  const drift = clock.date().getTime() - shown - (clock.now() - even);
  const state = judged(Math.abs(drift), { warn: driftMsMax, fail: Number.POSITIVE_INFINITY });
  const found = `${clock.date().toISOString()}, ${ms(drift)} off within ${lookMs} ms`;
  return check(
    "clock",
    state,
    found,
    "the clock is being adjusted: dates of events will jump, deadlines are not affected",
  );
}

/** Bytes of a job's model with its optimizer state: in all, and below device memory. */
export function modelBytes({ model, optimizer }: JobSpec): { whole: number; cached: number } {
  let [whole, cached] = [0, 0];
  for (const { rows, dim, precision, tier } of model.tables) {
    const bytes = rows * recordBytesOf({ dim, precision }, rowStateWidth(optimizer.sparse, dim));
    whole += bytes;
    if (tier !== "memory") cached += bytes;
  }
  return { whole, cached };
}

/**
 * Checks the memory that a job may need against the memory of this machine. `memory` undefined:
 * buffers of batches are not known before the data's ids are counted.
 */
export function memoryCheck(job: JobSpec, devices: number, memory?: HostMemory): Check {
  const { undoBytes = 0, buddyBytes = 0 } = job.checkpoint;
  const known =
    memory === undefined ? roughBytes(job, devices) : memory.tableBytes + memory.otherBytes;
  const needed = known + undoBytes + buddyBytes;
  const limit = memoryOfProcess();
  const parts = [...(memory?.parts ?? [])].sort((a, b) => b.bytes - a.bytes).slice(0, 3);
  const shown = parts.map(({ what, bytes }) => `${gibibytes(bytes)} of it for ${what}`);
  const all = [`${gibibytes(needed)} at most for all ${devices} devices`, ...shown].join(", ");
  const found = `${all}, of ${gibibytes(limit)}`;
  const mayLower = job.sharding === "auto" && job.tiers.ssd !== "none";
  if (needed > limit && mayLower && job.checkpoint.partial === undefined) {
    const below = "the plan will keep some tables below device memory, which is slower";
    return check("memory", "warn", found, `${below}; or spread devices over more hosts`);
  }
  const state = needed > limit ? "fail" : needed > 0.8 * limit ? "warn" : "ok";
  const advice =
    'keep tables below device memory (`tier: "cached"`), or spread devices over more hosts';
  return check("memory", state, found, advice);
}

/** Rows, caches and unwritten checkpoints. */
function roughBytes(job: JobSpec, devices: number): number {
  const { whole, cached } = modelBytes(job);
  const { hbmBytes, ddrBytes, ssd } = job.tiers;
  const ofHost = ssd === "none" ? cached : devices * ddrBytes; // Without a disk, all rows.
  const below = Math.min(cached, devices * hbmBytes) + Math.min(cached, ofHost);
  return whole - cached + below + devices * job.checkpoint.bufferBytes;
}

/** Checks the directories that a job writes to, and the store for its rows on disk. */
export async function diskChecks(job: JobSpec, clock: Clock): Promise<Check[]> {
  const { whole, cached } = modelBytes(job);
  const { directory, keep } = job.checkpoint;
  // The kept checkpoints, their baselines, and the one being written.
  const forCheckpoints = (keep + 2) * whole;
  const checks = isObjectAddress(directory)
    ? [] // The check of the run reads it.
    : directoryChecks("checkpoints", directory, forCheckpoints, job, clock);
  const { ssd } = job.tiers;
  if (cached === 0 || ssd === "none") return checks;
  const { root } = tierHome(job);
  const ofTiers = directoryChecks("tiers", root, 2 * cached, job, clock);
  return [...checks, ...ofTiers, await tierStoreCheck(job, ssd)];
}

/** Checks the store for the rows of a job's cached tables: the existing one, or the default. */
async function tierStoreCheck(job: JobSpec, ssd: DiskStore | "auto"): Promise<Check> {
  const name = "tiers: store";
  const here = await storesOn(realDisk);
  const [usual = "file"] = here;
  const atRest = persistedStores(realDisk, tierHome(job));
  const [kept] = atRest;
  if (ssd === "auto") {
    if (kept === undefined) return check(name, "ok", usual);
    const advice =
      "this machine cannot open that store, so the run reads the rows from the checkpoint";
    const state = here.includes(kept) ? "ok" : "warn";
    return check(name, state, `${kept}, which has the rows of an earlier run`, advice);
  }
  const advice = "leave `tiers.ssd` out of the job";
  if (!here.includes(ssd)) return check(name, "fail", `this machine has no ${ssd}`, advice);
  if (kept === undefined || atRest.includes(ssd)) return check(name, "ok", ssd);
  return check(name, "fail", `${ssd}, but the rows of an earlier run are in ${kept}`, advice);
}

function directoryChecks(
  name: string,
  directory: string,
  needed: number,
  job: JobSpec,
  clock: Clock,
): Check[] {
  const place = existing(resolve(directory));
  const { free } = sizeOf(place);
  const room = needed > free ? "fail" : 2 * needed > free ? "warn" : "ok";
  const found = `${gibibytes(free)} free at ${place}, ${gibibytes(needed)} needed at most`;
  const space = check(
    `${name}: space`,
    room,
    found,
    "free space, keep fewer checkpoints, or name a directory on another disk",
  );
  return [space, ...syncChecks(name, directory, place, job, clock)];
}

/** Checks that a directory exists or can be created, and is writable. */
export function writableCheck(name: string, directory: string): Check {
  const place = existing(resolve(directory));
  try {
    if (!statSync(place).isDirectory()) throw new Error(`${place} is not a directory`);
    accessSync(place, constants.W_OK | constants.X_OK);
    return check(name, "ok", `${gibibytes(sizeOf(place).free)} free at ${place}`);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return check(name, "fail", why, "name a directory that this user may write to");
  }
}

const syncs = 5;

function syncChecks(
  name: string,
  directory: string,
  place: string,
  job: JobSpec,
  clock: Clock,
): Check[] {
  const { disk } = deadlinesOf(job);
  let home: string | undefined;
  try {
    home = mkdtempSync(join(place, ".osiris-doctor-"));
    const path = join(home, "part");
    const file = openSync(path, "w");
    const times: number[] = [];
    for (let i = 0; i < syncs; i++) {
      const startMs = clock.now();
      writeSync(file, Buffer.alloc(64 * 1024, i));
      fsyncSync(file);
      times.push(clock.now() - startMs);
    }
    closeSync(file);
    renameSync(path, join(home, "manifest"));
    const median = times.sort((a, b) => a - b)[Math.floor(syncs / 2)] ?? 0;
    const state = judged(median, { warn: 0.1 * disk, fail: disk });
    const advice =
      `writers wait at most ${ms(disk)} for the disk: use a faster disk, or raise ` +
      "`stepDeadlineMs`";
    return [
      check(`${name}: sync`, state, `${ms(median)} for 64 kB`, advice),
      oneFileSystem(name, directory),
    ];
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return [check(`${name}: sync`, "fail", why, "name a directory that this user may write to")];
  } finally {
    if (home !== undefined) rmSync(home, { recursive: true, force: true });
  }
}

/** Checks that a checkpoint directory lies on one file system: only there is a rename atomic. */
function oneFileSystem(name: string, directory: string): Check {
  const parts = ["", "checkpoints", "generations"].map((part) => join(directory, part));
  const existing = parts.filter((path) => existsSync(path));
  const systems = new Set(existing.map((path) => statSync(path).dev));
  const advice = `mount nothing below ${directory}: a rename must stay within one file system`;
  const found = systems.size > 1 ? `${systems.size} file systems` : "one file system";
  return check(`${name}: rename`, systems.size > 1 ? "fail" : "ok", found, advice);
}

/** The directory itself, or its nearest existing ancestor. */
function existing(path: string): string {
  return existsSync(path) || path === dirname(path) ? path : existing(dirname(path));
}

function sizeOf(path: string): { readonly free: number; readonly total: number } {
  const { bavail, blocks, bsize } = statfsSync(path);
  return { free: bavail * bsize, total: blocks * bsize };
}

function gibibytes(bytes: number): string {
  const digits = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  return `${(bytes / 2 ** 30).toLocaleString("en-US", digits)} GiB`;
}
