// osiris simulate-cluster: a cluster in detail, several as a table, a choice, and refusals.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson } from "../../../../test/helpers/processes/start-cli.ts";
import type { Prediction } from "../../model.ts";
import type { AssessedOffer } from "../../predict/choose-cluster.ts";

interface Report {
  readonly clusters: readonly (AssessedOffer & { readonly prediction: Prediction })[];
  readonly chosen?: AssessedOffer;
  readonly changes?: readonly { readonly name: string; readonly gain: number }[];
}

/** A slice of a trace. */
interface Event {
  readonly name: string;
  readonly cat?: string;
  readonly dur?: number;
}

const hardware = readFileSync("hardware/zionex.yaml", "utf8");

/** A directory with a job, and with kinds of machines that differ in their price. */
function startFiles(t: Parameters<typeof startDirectory>[0]): string {
  const directory = startDirectory(t);
  const tables = [5000, 3000, 400].map((rows, i) => ({ name: `T${i}`, rows, dim: 32 }));
  const model = { kind: "dlrm", dense: 4, tables, bottom: [64, 32], top: [64, 1] };
  const data = { kind: "synthetic", samples: 100_000, dense: 4, batchSize: 1024 };
  writeFileSync(join(directory, "job.json"), JSON.stringify({ model, data }));
  const priced = (price: number) =>
    hardware.replace(/pricePerHour: [\d.]+/, `pricePerHour: ${price}`);
  writeFileSync(join(directory, "dear.yaml"), priced(300));
  writeFileSync(join(directory, "free.yaml"), hardware.replace(/pricePerHour: .*/, ""));
  writeFileSync(join(directory, "typo.yaml"), hardware.replace("ingestion:", "ingestoin:"));
  return directory;
}

test.serial(
  "one cluster is reported in detail: steps, memory, failures, changes, a picture",
  async (t) => {
    const directory = startFiles(t);
    for (const [kind, hosts, devices] of [
      ["zionex", 2, 16],
      ["laptop", 1, 2],
    ] as const) {
      const args = ["simulate-cluster", "job.json", "--hardware", kind, "--hosts", `${hosts}`];
      const { stdout } = await runOk(
        t,
        [...args, "--samples", "1e9", "--picture", "step.svg", "--trace", "step.json"],
        directory,
      );
      t.regex(
        stdout,
        new RegExp(
          `^job\\.json on ${hosts} hosts? of ${kind}, ${devices} devices: [\\d,]+ samples`,
        ),
      );
      for (const line of [
        /^Step {2,}/m,
        /^ {2}forwardLate +/m,
        /^Limited by/m,
        /^Memory of the fullest/m,
      ]) {
        t.regex(stdout, line);
      }
      t.regex(stdout, /^What would help most\n( {2}.*samples a second\n){3}/m);
      t.regex(stdout, /^1,000,000,000 samples +\d/m);
      t.regex(readFileSync(join(directory, "step.svg"), "utf8"), /<title>forwardLate<\/title>/);
      const trace = JSON.parse(readFileSync(join(directory, "step.json"), "utf8")) as Event[];
      const named = trace.filter(({ name, cat }) => name === "forwardLate" && cat === "task");
      t.true(named.length > 0 && named.every(({ dur = -1 }) => dur >= 0));
      const { clusters, changes = [] } = lastJson<Report>(
        await runCli([...args, "--json"], directory),
      );
      const [{ prediction } = { prediction: undefined }] = clusters;
      t.is(prediction?.devices, devices);
      t.is(prediction?.samplesPerSecond, 1024 / (prediction?.steps.step ?? 0));
      const gains = changes.map(({ gain }) => gain);
      t.deepEqual(
        gains,
        [...gains].sort((a, b) => b - a),
      );
    }
  },
);

test.serial(
  "several clusters are a table, and the cheapest within budget and deadline is chosen",
  async (t) => {
    const directory = startFiles(t);
    const kinds = [
      "simulate-cluster",
      "job.json",
      "--hardware",
      "zionex",
      "dear.yaml",
      "free.yaml",
    ];
    const asked = [...kinds, "--hosts", "1,2", "--samples", "1e12"];
    const { stdout } = await runOk(t, asked, directory);
    t.regex(stdout, /^job\.json:\nhardware +hosts +devices +samples\/s +step +limited by/);
    const { clusters, chosen } = lastJson<Report>(await runCli([...asked, "--json"], directory));
    t.is(clusters.length, 6);
    const cheapest = clusters
      .filter(({ prediction }) => prediction.price !== undefined)
      .sort((a, b) => (a.prediction.price ?? 0) - (b.prediction.price ?? 0))[0];
    t.deepEqual(chosen, cheapest);
    t.deepEqual(clusters.at(-1)?.fails, ["its hardware file has no `host.pricePerHour`"]);
    const seconds = Math.floor(chosen?.seconds ?? 0);
    const late = await runCli(
      [...asked, "--budget", "1e-3", "--deadline", `${seconds}s`],
      directory,
    );
    t.is(late.code, 1);
    t.regex(late.stdout, /\nNo cluster meets the requirements\.\n( {2}not \d hosts? of .*\n){6}$/);
  },
);

test.serial(
  "a table of clusters lists changes that a run needs first, as the report of one does",
  async (t) => {
    const directory = startFiles(t);
    const asked = ["simulate-cluster", "job.json", "--hardware", "zionex", "--changes", "0"];
    const small = [...asked, "--set", "data.batchSize=16"];
    const idle = "A batch of 16 has no sample for 16 of 32 devices: enlarge `data.batchSize`";
    const one = await runCli([...small, "--hosts", "4"], directory);
    t.true(one.stdout.includes(`\n  ! ${idle}\n`), one.stdout);
    const several = await runCli([...small, "--hosts", "1,4"], directory);
    t.true(several.stdout.includes(`\n  ! zionex, 4: ${idle}\n`), several.stdout);
    t.notRegex(several.stdout, /! zionex, 1: A batch/);
  },
);

test.serial("a single cluster is also checked against budget and deadline", async (t) => {
  const directory = startFiles(t);
  const asked = ["simulate-cluster", "job.json", "--hardware", "zionex", "--changes", "1"];
  const limited = [...asked, "--samples", "1e9", "--budget", "1", "--deadline"];
  const met = await runOk(t, [...limited, "1d"], directory);
  t.regex(met.stdout, /^What would help most\n.*\n\nCheapest: 1 host of zionex, 0\.\d+ in .*\n$/m);
  t.regex(met.stdout, /^Energy +0\.\d*[1-9]\d* kWh/m);
  const late = await runCli([...limited, "1s"], directory);
  t.is(late.code, 1);
  t.regex(
    late.stdout,
    /\nNo cluster meets the requirements\.\n {2}not 1 host of zionex: takes .*\n$/,
  );
  const { changes, clusters } = lastJson<Report>(
    await runCli([...limited, "1s", "--json"], directory),
  );
  t.is(changes?.length, 1);
  t.regex(clusters[0]?.fails[0] ?? "", /^takes /);
});

test.serial("simulated rows may be on servers of another kind of machine", async (t) => {
  const directory = startFiles(t);
  const asked = ["simulate-cluster", "job.json", "--hardware", "zionex", "--hosts", "2"];
  const placed = ["--set", "placement.kind=servers", "--set", "placement.servers=1"];
  const machines = ["--devices", "2", "--servers-hardware", "cpu-ps"];
  const found = await runCli(
    [...asked, ...placed, ...machines, "--changes", "0", "--json"],
    directory,
  );
  const { prediction } = lastJson<Report>(found).clusters[0] ?? {};
  t.is(prediction?.hardware, "zionex with servers of cpu-ps", found.stderr);
  t.true((prediction?.samplesPerSecond ?? 0) > 0);
});

test.serial("checkpoints reduce the goodput even if the rate of failures is unknown", async (t) => {
  const directory = startFiles(t);
  const asked = ["simulate-cluster", "job.json", "--hardware", "cpu-ps", "--changes", "0"];
  const { stdout } = await runCli([...asked, "--checkpoint-every", "0.01s"], directory);
  t.regex(
    stdout,
    /^Goodput +\d\d\.\d %: a checkpoint every 0\.01 s takes .* no `host\.mtbfHours`$/m,
  );
  t.notRegex(stdout, /^Goodput +100/m);
});

test.serial("wrong options of simulate-cluster are refused in one sentence", async (t) => {
  const directory = startFiles(t);
  const job = ["simulate-cluster", "job.json", "--hardware"];
  for (const [args, expected, refusal] of [
    [[...job, "zionexx"], 2, /no kind of machine of this name: did you mean zionex\?/],
    [[...job, "typo.yaml"], 2, /typo\.yaml: .*`host\.ingestoin`/],
    [[...job, "zionex", "--hosts", "0"], 2, /Expected numbers of hosts > 0/],
    [[...job, "zionex", "--hosts", "2", "--devices", "3"], 2, /the same number, got `3`/],
    [[...job, "zionex", "--budget", "5"], 2, /Expected `--samples`, the samples to train, beside/],
    [[...job, "zionex", "--samples", "0"], 2, /Expected more than 0/],
    [[...job, "zionex", "--samples", "1e300"], 2, /Expected 1 to 1e\+18 samples/],
    [[...job, "zionex", "--checkpoint-every", "0s"], 2, /Expected more than 0/],
    [[...job, "zionex", "laptop", "--picture", "a.svg"], 2, /Expected one kind of machine and one/],
    [[...job, "zionex", "--servers-hardware", "cpu-ps"], 2, /`hosts` to be 2 or more, as the last/],
    [["simulate-cluster", "model-x", "--hardware", "zionex"], 2, /Expected a job file, or one of/],
    [
      [
        ...job,
        "laptop",
        "--set",
        "model.tables[].rows=2000000000",
        "--set",
        "model.tables[].dim=1024",
        "--set",
        "model.bottom[1]=1024",
      ],
      1,
      /does not fit 1 hosts? of laptop: .*; any one would do: /,
    ],
  ] as const) {
    const { code, stderr } = await runCli([...args], directory);
    t.is(code, expected, stderr);
    t.regex(stderr, refusal);
  }
});
