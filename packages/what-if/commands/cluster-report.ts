// The report of `osiris simulate-cluster`: of one cluster in detail, of several as a table; as
// lines for people and as an object for JSON.

import {
  aligned,
  bytes,
  count,
  duration,
  percent,
  plural,
  shortTime,
} from "../../../cli/support/format.ts";
import type { Prediction } from "../model.ts";
import type { MeasuredChange } from "../predict/changes.ts";
import type { AssessedOffer, ClusterChoice, Offer } from "../predict/choose-cluster.ts";

/** The prediction of one cluster. */
export function detailLines(
  path: string,
  found: Prediction,
  changes: readonly MeasuredChange[],
  {
    samples,
    seconds,
  }: { readonly samples: number | undefined; readonly seconds: number | undefined },
): string[] {
  const { hardware, hosts, devices, samplesPerSecond, steps, batchSize, bottleneck } = found;
  const { price, kilowattHours } = found;
  const line = (name: string, what: string) => `${name.padEnd(21)}${what}`;
  return [
    `${path} on ${plural(hosts, "host")} of ${hardware}, ${plural(devices, "device")}: ` +
      `${count(samplesPerSecond)} samples a second`,
    ...found.missing.map((sentence) => `  ! ${sentence}`),
    "",
    line("Step", `${shortTime(steps.step)} for ${plural(batchSize, "sample")}`),
    ...stepLines(found),
    line("Limited by", `${bottleneck.name}, ${percent(bottleneck.share)} of a step`),
    "",
    ...memoryLines(found),
    "",
    ...failureLines(found),
    ...(price === undefined ? [] : [line("Price", `${figure(price)} a billion samples`)]),
    ...(kilowattHours === undefined
      ? []
      : [line("Energy", `${figure(kilowattHours)} kWh a billion samples`)]),
    ...(samples === undefined || seconds === undefined
      ? []
      : [
          line(
            `${count(samples)} samples`.padEnd(20),
            ` ${duration(seconds)}${price === undefined ? "" : `, ${figure((price * samples) / 1e9)}`}`,
          ),
        ]),
    "",
    ...changeLines(changes),
  ];
}

/** Work by task on the slowest device, and what it waits for; hidden flights beside it. */
function stepLines({ steps }: Prediction): string[] {
  const { step, byTask, exposed, hidden } = steps;
  const row = (name: string, seconds: number, more = "") => {
    const share = percent(seconds / step).padStart(8);
    return `  ${name.padEnd(19)}${shortTime(seconds).padStart(9)}${share}${more}`;
  };
  const tasks = Object.entries(byTask).filter(([, seconds]) => seconds > 0);
  const channels = [...new Set([...Object.keys(exposed), ...Object.keys(hidden)])];
  const flights = channels.flatMap((channel) => {
    const [shown, behind] = [exposed[channel] ?? 0, hidden[channel] ?? 0];
    return shown + behind > 0 ? [{ channel, shown, behind }] : [];
  });
  return [
    ...tasks.map(([task, seconds]) => row(task, seconds)),
    ...(flights.length === 0 ? [] : ["Flights that devices wait for, and hidden ones"]),
    ...flights.map(({ channel, shown, behind }) => {
      return row(channel, shown, behind > 0 ? `  ${shortTime(behind)} hidden` : "");
    }),
  ];
}

const levelNames = { device: "device", host: "host", disk: "disk of a host" } as const;
const levels = ["device", "host", "disk"] as const;

function memoryLines({ memory }: Prediction): string[] {
  const rows = levels.flatMap((level) => {
    const { used, there } = memory[level];
    if (used === 0 && there === 0) return [];
    const share = there === 0 ? "" : `  ${percent(used / there)}`;
    return [`  ${levelNames[level].padEnd(19)}${bytes(used)} of ${bytes(there)}${share}`];
  });
  return ["Memory of the fullest", ...rows];
}

function failureLines({ failures, goodput }: Prediction): string[] {
  const { mtbf, every, save, restore } = failures;
  if (mtbf === Number.POSITIVE_INFINITY) {
    const saves = Number.isFinite(every)
      ? `a checkpoint every ${duration(every)} takes ${shortTime(save)}; `
      : "";
    return [
      `Goodput              ${percent(goodput)}: ${saves}the hardware file has no \`host.mtbfHours\``,
    ];
  }
  if (goodput === 0) {
    return [
      `Goodput              none: a host fails every ${shortTime(mtbf)}, but a restart takes ` +
        `${shortTime(restore)} and a checkpoint ${shortTime(save)}, so the job makes no progress`,
    ];
  }
  return [
    `Goodput              ${percent(goodput)}: a host fails every ${duration(mtbf)}; a checkpoint ` +
      `every ${duration(every)} takes ${shortTime(save)}, a restart ${duration(restore)}`,
  ];
}

function changeLines(changes: readonly MeasuredChange[]): string[] {
  if (changes.length === 0) return [];
  return [
    "What would help most",
    ...changes.map(({ name, gain }) => `  ${name.padEnd(22)}${signed(gain)} samples a second`),
  ];
}

function signed(gain: number): string {
  return `${gain < 0 ? "-" : "+"}${percent(Math.abs(gain))}`.padStart(9);
}

/** A price or an energy as text; small ones keep digits. */
function figure(value: number): string {
  if (value >= 100) return count(value);
  return value >= 1 || value === 0 ? value.toFixed(2) : value.toPrecision(3);
}

/** Several clusters, a line each. */
export function tableLines(path: string, offers: readonly (Offer | AssessedOffer)[]): string[] {
  const isTrained = offers.some((offer) => "seconds" in offer);
  const head = [
    ...["hardware", "hosts", "devices", "samples/s", "step", "limited by"],
    ...["device", "host", "goodput", "price/1e9", "kWh/1e9"],
    ...(isTrained ? ["time", "price"] : []),
  ];
  const rows = offers.map((offer): string[] => {
    const { hardware, hosts, prediction } = offer;
    if (typeof prediction === "string") {
      return [hardware, count(hosts), "-", "does not fit", ...head.slice(4).map(() => "-")];
    }
    const { devices, samplesPerSecond, steps, bottleneck, goodput, memory } = prediction;
    const { price, kilowattHours } = prediction;
    const used = ({ used: own, there }: { used: number; there: number }) =>
      there === 0 ? "-" : percent(own / there);
    const { seconds, price: whole }: Partial<AssessedOffer> = offer;
    return [
      ...[hardware, count(hosts), count(devices), count(samplesPerSecond), shortTime(steps.step)],
      ...[`${bottleneck.name} ${percent(bottleneck.share)}`, used(memory.device)],
      ...[
        used(memory.host),
        goodput === 0 ? "none" : percent(goodput),
        price === undefined ? "-" : figure(price),
      ],
      kilowattHours === undefined ? "-" : figure(kilowattHours),
      ...(isTrained
        ? [
            seconds === undefined ? "-" : duration(seconds),
            whole === undefined ? "-" : figure(whole),
          ]
        : []),
    ];
  });
  const refused = offers.flatMap(({ hardware, hosts, prediction }) => {
    if (typeof prediction === "string") return [`  ${hardware}, ${hosts}: ${prediction}`];
    return prediction.missing.map((sentence) => `  ! ${hardware}, ${hosts}: ${sentence}`);
  });
  return [`${path}:`, ...aligned([head, ...rows]), ...refused];
}

/** The cheapest cluster that meets the requirements, and why others do not meet them. */
export function verdictLines({ offers, chosen }: ClusterChoice): string[] {
  const nameOf = ({ hardware, hosts }: Offer) => `${plural(hosts, "host")} of ${hardware}`;
  const failed = offers.filter(({ fails }) => fails.length > 0);
  const first =
    chosen === undefined
      ? "No cluster meets the requirements."
      : `Cheapest: ${nameOf(chosen)}, ${figure(chosen.price ?? 0)} in ${duration(chosen.seconds ?? 0)}`;
  return ["", first, ...failed.map((offer) => `  not ${nameOf(offer)}: ${offer.fails.join("; ")}`)];
}

/** The report as one object, without the spans of the timeline, which only the trace has. */
export function jsonOf(
  job: string,
  offers: readonly Offer[],
  choice: ClusterChoice | undefined,
  changes?: readonly MeasuredChange[],
): object {
  const plain = (offer: Offer) => {
    if (typeof offer.prediction === "string") return offer;
    const { spans: _spans, ...steps } = offer.prediction.steps;
    return { ...offer, prediction: { ...offer.prediction, steps } };
  };
  const clusters = (choice?.offers ?? offers).map(plain);
  const chosen = choice?.chosen && plain(choice.chosen);
  return { report: "simulate-cluster", job, clusters, changes, chosen };
}
