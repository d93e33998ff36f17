// osiris verify RUN --from A --to B: retrains an interval of a run, and compares it bit by bit.

import type { Command } from "commander";
import {
  InvalidOptionError,
  type RunProof,
  type VerifyReport,
  verifyCheckpoints,
  verifyRun,
} from "../../../internal.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { isModelFile } from "../../../storage/checkpoints/store/file-checkpoint-store.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  integerFrom,
  withClient,
  withCommon,
  withModelRoots,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { bytes, count, duration, plural } from "../../support/format.ts";
import { runDirectory } from "../../support/named-run.ts";
import { runTask } from "../../views/task-view.ts";

interface VerifyOptions extends CommonOptions, ConnectionArguments {
  readonly from?: string;
  readonly to?: string;
  readonly devices?: number;
}

/** Digits of a hash in the output for people. */
const hashDigits = 12;

export function addVerify(program: Command): void {
  const command = program
    .command("verify")
    .argument(
      "<run>",
      "checkpoint directory, .osiris file, or a cluster's run whose directory can be read here",
    )
    .description(
      "retrain an interval of a run and compare every bit; exit code 3: they differ. For a " +
        ".osiris file: check its hashes up to the run's digest",
    )
    .option(
      "--from <HASH>",
      "first checkpoint: its manifest's hash, or `start` (default: the one before --to)",
    )
    .option("--to <HASH>", "last checkpoint: its manifest's hash, or a prefix (default: newest)")
    .option(
      "--devices <N>",
      "devices (threads) that retrain; any number gives the same bits",
      integerFrom(1),
    );
  withCommon(withModelRoots(withClient(command)), [
    "verify checkpoints",
    "verify checkpoints --from start --to 7c1f6a0e",
    "verify r12-1 --token 4f1c... --json",
    "verify model.osiris",
  ]).action(async (run: string, options: VerifyOptions) => {
    const { json, from, to, devices } = options;
    if (isModelFile(run, realDisk)) {
      process.exitCode = await verifyFile(run, options);
      return;
    }
    const directory = await runDirectory(run, options);
    process.exitCode = await runTask(
      "verify",
      (progress) => verifyRun(directory, { from, to, devices, ...progress }),
      (proof) => {
        if (json) console.log(JSON.stringify({ report: "verify", directory, ...proof }));
        else for (const line of proofLines(proof)) console.log(line);
        return proof.isEqual ? exitCodes.done : exitCodes.differs;
      },
      (steps) => plural(steps, "step"),
    );
  });
}

/** Verifies a model file by its hashes: it has one step, and no data to retrain it. */
function verifyFile(path: string, options: VerifyOptions): Promise<number> {
  const { json, from, to, devices } = options;
  const [given] = Object.entries({ from, to, devices }).filter(([, value]) => value !== undefined);
  if (given !== undefined) {
    const message = `Expected \`--${given[0]}\` with a checkpoint directory, as ${path} has one step`;
    throw new InvalidOptionError(`--${given[0]}`, message);
  }
  return runTask(
    "verify",
    (progress) => verifyCheckpoints(path, progress),
    (report) => {
      if (json) console.log(JSON.stringify({ report: "verify", file: path, ...report }));
      else for (const line of fileLines(path, report)) console.log(line);
      return report.isIntact ? exitCodes.done : exitCodes.failed;
    },
  );
}

function fileLines(path: string, { checkpoints, proven, stated }: VerifyReport): string[] {
  return checkpoints.flatMap((one) => {
    const { bytes: size, manifest, cut, generation, digest, storedDigest, reason } = one;
    if (reason !== undefined) return [reason];
    return [
      `File                 ${path}: every byte of ${bytes(size)} has its hash`,
      `Manifest             ${manifest.slice(0, hashDigits)} (step ${count(cut)}, generation ${generation})`,
      `Proven               ${proven.join(", ")}`,
      ...(stated.length === 0
        ? []
        : [
            `Stated by export     ${stated.join(", ")}: without the optimizer's state of each element`,
          ]),
      ...(storedDigest === undefined ? [] : [`Stored in fewer bits ${storedDigest}`]),
      `Leads to the digest  ${digest}`,
    ];
  });
}

/** The proof for people, as lines. */
export function proofLines(proof: RunProof): string[] {
  const { from, to, lineage, steps, seconds, devices, digest, leaves, isEqual } = proof;
  const nameOf = (one: typeof from) =>
    one === undefined
      ? "step 0"
      : `${one.manifest.slice(0, hashDigits)} (step ${count(one.cut)}, generation ${one.generation})`;
  const ways = lineage.map(
    ({ generation, from: began }) => `${generation} from step ${count(began)}`,
  );
  const same = leaves.filter((leaf) => leaf.isEqual).map(({ name }) => name);
  const wrong = leaves.filter((leaf) => !leaf.isEqual);
  return [
    `From                 ${nameOf(from)}`,
    `To                   ${nameOf(to)}`,
    `Trained by           generation ${ways.join(", ")}`,
    `Replayed             ${plural(steps, "step")} in ${duration(seconds)} on ${plural(devices, "device")}`,
    `Equal                ${same.join(", ")}`,
    ...wrong.map(({ name, difference = "other bits" }) => `! ${name}: ${difference}`),
    isEqual ? `Equal, bit by bit: ${digest}` : `It differs: the replay came to ${digest}`,
  ];
}
