// osiris report RUN: writes a run as one HTML file with curves, plan, tiers, incidents and digest,
// or one of its charts as a picture.

import { execFile } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { type Command, Option } from "commander";
import {
  type CommonOptions,
  type ConnectionArguments,
  collected,
  connectionOf,
  noteArithmetic,
  withClient,
  withCommon,
  withModelRoots,
} from "../../../cli/support/arguments.ts";
import { browserFlags, browserPath } from "../../../cli/support/browser.ts";
import { bytes } from "../../../cli/support/format.ts";
import { namedRun } from "../../../cli/support/named-run.ts";
import {
  type ColumnSlices,
  connect,
  InputUnusableError,
  InvalidOptionError,
  isObjectAddress,
  loadModel,
  realDisk,
  sliceMetrics,
  temporaryHome,
  writeWhole,
} from "../../../internal.ts";
import { reportOfDirectory, reportOfRun } from "../index.ts";

const charts = [
  ...(["loss", "auc", "gauc", "logloss", "entropy", "calibration", "rmse", "mse", "mae"] as const),
  ...(["r2", "stages", "stall", "rates", "speed", "misses"] as const),
];

interface ReportOptions extends CommonOptions, ConnectionArguments {
  readonly out?: string;
  readonly png?: string;
  readonly chart: (typeof charts)[number];
  readonly by?: readonly string[];
}

/** Height of the browser's window in pixels; the page of a headless browser may be lower. */
const pictureHeight = 360;
/** Longest time that one run of the browser may take. */
const browserMs = 60_000;

export function addReport(program: Command): void {
  const command = program
    .command("report")
    .argument("<run>", "a run, the name of its job, or its checkpoint directory")
    .description("write a report of a run as one HTML file: curves, plan, tiers, incidents, digest")
    .option("-o, --out <FILE>", "file to write (default: RUN.html)")
    .option("--png <FILE>", "write a picture of one chart instead; needs Chromium or Chrome")
    .addOption(new Option("--chart <NAME>", "chart of --png").choices(charts).default("loss"))
    .option(
      "--by <COLUMNS>",
      "of a directory: held-out metrics for each value of these columns, such as country,device",
      collected,
    );
  withCommon(withClient(withModelRoots(command)), [
    "report r12-1 -o report.html",
    "report checkpoints -o report.html          # also without a cluster",
    "report checkpoints --by country,device",
    "report r12-1 --png loss.png",
    "report r12-1 --png stages.png --chart stages",
  ]).action(report);
}

async function report(name: string, options: ReportOptions): Promise<void> {
  const text = await textOf(name, options);
  const { png, chart, json } = options;
  const path = png ?? options.out ?? `${name.replace(/[^\w.-]+/g, "-")}.html`;
  if (png === undefined) {
    await writeWhole(realDisk, path, async (file) => {
      file.write(new TextEncoder().encode(text), 0);
    });
  } else await drawChart(text, chart, png);
  const size = statSync(path).size;
  if (json === true) console.log(JSON.stringify({ report: "report", path, bytes: size }));
  else console.log(`${path}: ${bytes(size)}`);
}

async function textOf(name: string, options: ReportOptions): Promise<string> {
  const columns = options.by?.flatMap((list) => list.split(","));
  if (isObjectAddress(name) || existsSync(name)) {
    return reportOfDirectory(name, { slices: columns && (await slicesOf(name, columns)) });
  }
  if (columns !== undefined) {
    const message =
      `Expected a checkpoint directory with \`--by\`, got ${name}: the metrics of a cluster's run ` +
      "by columns are those of the model in its checkpoint directory";
    throw new InvalidOptionError("--by", message);
  }
  await using client = await connect(connectionOf(options));
  return await reportOfRun(await namedRun(client, name));
}

/** Metrics by `columns` of the best model, else the last, on the samples that its job holds out. */
async function slicesOf(directory: string, columns: readonly string[]): Promise<ColumnSlices[]> {
  await using model = await loadModel(directory, { arithmetic: "auto" });
  noteArithmetic(model);
  return await sliceMetrics(model, columns);
}

/** Takes a screenshot of the report with one chart alone, in a headless browser. */
async function drawChart(text: string, chart: string, png: string): Promise<void> {
  const browser = browserPath();
  if (browser === undefined) {
    const advice = "install Chromium, name one in OSIRIS_BROWSER, or save the chart in the page";
    throw new InputUnusableError("chromium", `There is no browser on the PATH: ${advice}`);
  }
  using home = temporaryHome("osiris-report-");
  try {
    const page = join(home.path, "report.html");
    writeFileSync(page, text);
    const drawn = join(home.path, "chart.png");
    const flags = [
      ...browserFlags,
      `--user-data-dir=${join(home.path, "profile")}`,
      ...[`--window-size=960,${pictureHeight}`, "--force-device-scale-factor=2"],
      "--virtual-time-budget=4000",
    ];
    const url = `${pathToFileURL(page)}#chart=${chart}&height=${pictureHeight}`;
    const run = async (what: string) => {
      const limits = { timeout: browserMs, maxBuffer: 64 * text.length };
      return await promisify(execFile)(browser, [...flags, what, url], limits);
    };
    checkChart(chart, chartsIn((await run("--dump-dom")).stdout));
    await run(`--screenshot=${drawn}`);
    if (!existsSync(drawn)) throw new Error(`${browser} wrote no picture`);
    const picture = readFileSync(drawn);
    await writeWhole(realDisk, resolve(png), async (file) => {
      file.write(picture, 0);
    });
  } catch (cause) {
    if (cause instanceof InputUnusableError) throw cause;
    const reason = cause instanceof Error ? cause.message.split("\n")[0] : String(cause);
    throw new InputUnusableError(browser, `${browser} drew no chart: ${reason}`, { cause });
  }
}

/** Names of the charts that have a canvas in a rendered page. */
function chartsIn(page: string): string[] {
  return page.split("<figure ").flatMap((figure) => {
    const [, name] = /^[^>]*id="chart-([a-z0-9]+)"/.exec(figure) ?? [];
    return name !== undefined && figure.includes("<canvas") ? [name] : [];
  });
}

/** @throws InputUnusableError where the page has not drawn the chart, for lack of data */
function checkChart(chart: string, drawn: readonly string[]): void {
  if (drawn.includes(chart)) return;
  const others = drawn.length === 0 ? "it has none" : `it has ${drawn.join(", ")}`;
  const kept = "a checkpoint directory keeps only the loss and the metrics of evaluations";
  const message = `There is no chart \`${chart}\` in this report: ${others}; ${kept}`;
  throw new InputUnusableError(chart, message);
}
