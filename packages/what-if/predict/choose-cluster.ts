// Chooses a cluster from predictions for several kinds and numbers of hosts: the cheapest one that
// trains the wanted samples within a budget and a deadline; and says why others are not chosen.

import type { Prediction } from "../model.ts";

/** A cluster to choose from. */
export interface Offer {
  readonly hardware: string;
  readonly hosts: number;
  /** The prediction; or the message of the error by which there is none. */
  readonly prediction: Prediction | string;
}

export interface Wanted {
  readonly samples: number;
  /** Most that the training may cost, in the unit of the prices; left out: any price. */
  readonly budget?: number | undefined;
  /** Most seconds that it may take; left out: any time. */
  readonly deadline?: number | undefined;
}

export interface AssessedOffer extends Offer {
  /** Seconds and price of the training, with the time that failures cost. */
  readonly seconds?: number;
  readonly price?: number;
  /** Requirements that the cluster does not meet; empty: it meets all. */
  readonly fails: readonly string[];
}

export interface ClusterChoice {
  readonly offers: readonly AssessedOffer[];
  /** The cheapest that meets all; of equal ones the fastest, then the first; undefined: none. */
  readonly chosen: AssessedOffer | undefined;
}

export function chooseCluster(offers: readonly Offer[], wanted: Wanted): ClusterChoice {
  const assessed = offers.map((offer) => assess(offer, wanted));
  const fit = assessed.filter(({ fails }) => fails.length === 0);
  const order = (a: AssessedOffer, b: AssessedOffer) =>
    (a.price ?? 0) - (b.price ?? 0) || (a.seconds ?? 0) - (b.seconds ?? 0);
  return { offers: assessed, chosen: fit.sort(order)[0] };
}

function assess(offer: Offer, { samples, budget, deadline }: Wanted): AssessedOffer {
  const { prediction } = offer;
  if (typeof prediction === "string") return { ...offer, fails: [prediction] };
  const { samplesPerSecond, goodput, price: ofBillion } = prediction;
  const seconds = samples / (samplesPerSecond * goodput);
  if (!Number.isFinite(seconds)) return { ...offer, fails: ["fails before it trains anything"] };
  if (ofBillion === undefined) {
    const fails = ["its hardware file has no `host.pricePerHour`"];
    return { ...offer, seconds, fails };
  }
  const price = (ofBillion * samples) / 1e9;
  const fails = [
    ...(price > (budget ?? Infinity)
      ? [`costs ${(price / (budget ?? 1)).toFixed(2)} times the budget`]
      : []),
    ...(seconds > (deadline ?? Infinity)
      ? [`takes ${(seconds / (deadline ?? 1)).toFixed(2)} times the deadline`]
      : []),
  ];
  return { ...offer, seconds, price, fails };
}
