// osiris cache ls|rm: lists and removes the binary caches that runs have made of their data.

import type { Command } from "commander";
import {
  type CachedSource,
  type CacheList,
  type CacheRecord,
  type FileCount,
  listCaches,
  removeCaches,
} from "../../../internal.ts";
import { type CommonOptions, secondsFrom, withCommon } from "../../support/arguments.ts";
import { aligned, bytes, count, duration, plural } from "../../support/format.ts";

interface CacheOptions extends CommonOptions {
  readonly directory: string;
}

interface RemoveOptions extends CacheOptions {
  readonly olderThan?: number;
  readonly all?: boolean;
  readonly yes?: boolean;
}

export function addCache(program: Command): void {
  const cache = program
    .command("cache")
    .description("list and remove the binary caches that runs made of their data");
  addList(cache);
  addRemove(cache);
}

function withDirectory(command: Command): Command {
  const described = "directory of the caches: `data.cache` of the jobs";
  return command.option("--directory <DIRECTORY>", described, ".osiris/cache");
}

function addList(cache: Command): void {
  const command = cache
    .command("ls")
    .description(
      "list caches: source, samples, size, last use, and whether the source has changed",
    );
  withCommon(withDirectory(command), [
    "cache ls",
    "cache ls --directory /scratch/cache --json",
  ]).action(({ directory, json }: CacheOptions) => {
    const nowMs = Date.now();
    const list = listCaches(directory, nowMs);
    if (json === true) console.log(JSON.stringify({ report: "cache.ls", ...list }));
    else for (const line of linesOf(list, nowMs)) console.log(line);
  });
}

function addRemove(cache: Command): void {
  const command = cache
    .command("rm")
    .argument("[names...]", "caches, as `osiris cache ls` lists them, or prefixes of names")
    .description("list the selected caches, which --yes removes")
    .option(
      "--older-than <TIME>",
      "select caches that no run has used for this time, such as 12h or 30d",
      secondsFrom,
    )
    .option("--all", "select all caches, except those that a run has just used")
    .option("--yes", "remove the selected caches");
  withCommon(withDirectory(command), [
    "cache rm csv-0f3a --yes",
    "cache rm --older-than 30d",
    "cache rm --all --yes",
  ]).action((names: readonly string[], options: RemoveOptions) => {
    const { directory, olderThan, all, yes, json } = options;
    const nowMs = Date.now();
    const unusedMs = olderThan === undefined ? undefined : 1000 * olderThan;
    const choice = { names, unusedMs, all, dryRun: yes !== true };
    const removal = removeCaches(listCaches(directory, nowMs), choice, nowMs);
    if (json === true) {
      console.log(JSON.stringify({ report: "cache.rm", ...removal, dryRun: choice.dryRun }));
      return;
    }
    const { removed, inUse, ranges } = removal;
    for (const { path, bytes: size } of removed) {
      console.log(`${choice.dryRun ? "would remove" : "removed"} ${path} (${bytes(size)})`);
    }
    if (ranges.count > 0) {
      const ofRemote = `${plural(ranges.count, "range")} of remote files`;
      console.log(
        `${choice.dryRun ? "would remove" : "removed"} ${ofRemote} (${bytes(ranges.bytes)})`,
      );
    }
    for (const { path } of inUse) console.log(`kept ${path}: a run has just used it`);
    const files = removed.length + ranges.count;
    const total = `${plural(files, "file")}, ${bytes(removal.bytes)}`;
    const again = choice.dryRun && files > 0 ? "; `--yes` removes them" : "";
    console.log(`${total}${again}`);
  });
}

function linesOf(list: CacheList, nowMs: number): string[] {
  const { directory, caches, fileIndexes, ranges, leftovers } = list;
  const size = caches.reduce((sum, one) => sum + one.bytes, 0);
  const counted = ({ count: files, bytes: own }: FileCount, what: string) =>
    files === 0 ? "" : `; ${count(files)} ${what}, ${bytes(own)}`;
  const head =
    `${plural(caches.length, "cache")} in ${directory}, ${bytes(size)}` +
    counted(fileIndexes, "indexes of files") +
    counted(ranges, "ranges of remote files");
  const titles = ["NAME", "SAMPLES", "BYTES", "USED", "SOURCE"];
  const cells = caches.map((cache) => cellsOf(cache, nowMs));
  const left = leftovers.map(({ path, bytes: own }) => `left behind: ${path} (${bytes(own)})`);
  const more = left.length === 0 ? [] : ["", ...left, "the next run here removes them"];
  if (caches.length === 0) return [head, ...more];
  return [head, ...aligned([titles, ...cells]).map((line) => `  ${line}`), ...more];
}

function cellsOf(cache: CacheRecord, nowMs: number): string[] {
  const { name, samples, bytes: size, usedMs, isInUse, sources, damage } = cache;
  const used = isInUse ? "in use" : `${duration((nowMs - usedMs) / 1000)} ago`;
  const noted = name.startsWith("synthetic-") ? "generated" : "not recorded";
  const source = sources.length === 0 ? noted : sources.map(sourceText).join(", ");
  const state = damage === undefined ? source : `damaged: ${damage}; the next run makes it again`;
  return [name, samples === undefined ? "-" : count(samples), bytes(size), used, state];
}

function sourceText({ path, state }: CachedSource): string {
  return state === "same" ? path : `${path} (${state})`;
}
