// The lock of a checkpoint directory: a second process is refused while the first one lives.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { realDisk } from "../../../../src/ports/disk.ts";
import { holdDirectory } from "../../../../storage/checkpoints/store/hold-directory.ts";
import { startDirectory } from "../../../data/data-files.ts";
import { runCli, runOk } from "../../../helpers/processes/cli.ts";
import { startNode } from "../../../helpers/processes/start-cli.ts";

const since = new Date("2026-11-28T09:00:00Z");

function directoryOf(t: ExecutionContext): string {
  const home = startDirectory(t);
  return join(home, "checkpoints");
}

/**
 * The disk as process `pid` of this machine sees it; `isGone` says whether every other process is
 * gone.
 */
function diskOf(pid: number, isGone = false) {
  const [machine] = realDisk.writer.split("-");
  const all = { ...realDisk, writer: `${machine}-${pid}-1-0` };
  return { ...all, isGone: () => isGone };
}

test("a second process is refused while the first one lives, and the error names the first", (t) => {
  const directory = directoryOf(t);
  const held = holdDirectory(directory, { takeOver: false, disk: diskOf(11), date: since });
  const error = t.throws(() => holdDirectory(directory, { takeOver: false, disk: diskOf(12) }));
  t.like(error, { code: "DIRECTORY_HELD" });
  t.regex(String(error?.message), /process 11 .* since 2026-11-28T09:00:00.000Z.*--take-over/);
  held[Symbol.dispose]();
  holdDirectory(directory, { takeOver: false, disk: diskOf(12) })[Symbol.dispose]();
  t.false(existsSync(join(directory, "training.json")));
});

test("a lock of a process that is gone, or of another machine, holds nothing", (t) => {
  const directory = directoryOf(t);
  holdDirectory(directory, { takeOver: false, disk: diskOf(11) });
  holdDirectory(directory, { takeOver: false, disk: diskOf(12, true) });
  const elsewhere = { ...diskOf(12), writer: "00000000-12-1-0" };
  holdDirectory(directory, { takeOver: false, disk: elsewhere });
  holdDirectory(directory, { takeOver: false, disk: diskOf(13) })[Symbol.dispose]();
  t.false(existsSync(join(directory, "training.json")));
});

test("after a takeover the new process holds the directory, and the former one cannot release it", (t) => {
  const directory = directoryOf(t);
  const former = holdDirectory(directory, { takeOver: false, disk: diskOf(11) });
  holdDirectory(directory, { takeOver: true, disk: diskOf(12), date: since });
  former[Symbol.dispose]();
  const error = t.throws(() => holdDirectory(directory, { takeOver: false, disk: diskOf(13) }));
  t.regex(String(error?.message), /process 12 /);
});

test("`osiris train` is refused where another process holds the directory", async (t) => {
  const directory = directoryOf(t);
  const text = `
    const { holdDirectory } = await import(process.argv[1]);
    holdDirectory(process.argv[2], { takeOver: false });
    console.log("held");
    setInterval(() => {}, 1000);`;
  const module = new URL(
    "../../../../storage/checkpoints/store/hold-directory.js",
    import.meta.url,
  );
  const program = ["--input-type=module", "-e", text, module.href, directory];
  const holder = startNode(program, process.cwd());
  t.teardown(() => holder.kill("SIGKILL"));
  await holder.line((line) => line === "held");
  const job = join(directory, "job.yaml");
  writeFileSync(
    job,
    `model: { kind: lr, tables: [{ name: a, rows: 8, dim: 1 }] }
data: { kind: synthetic, samples: 64, dense: 0, batchSize: 32 }
checkpoint: { directory: ${directory} }
`,
  );
  const args = ["train", job, "--devices", "1", "--set", "arithmetic=reference"];
  const refused = await runCli(args, directory);
  t.not(refused.code, 0);
  t.regex(refused.stderr, new RegExp(`process ${holder.pid} of this machine`));
  holder.kill("SIGKILL");
  await holder.ended;
  await runOk(t, args, directory);
});
