// Chooses a cluster: of predictions for several kinds and numbers of hosts, the cheapest that
// trains so many samples within a budget and before a deadline; and why the others do not.

import type { Prediction } from "../model.ts";

/** A cluster to choose from. */
export interface Offer {
  readonly hardware: string;
  readonly hosts: number;
  /** Or why there is none: the message of the error. */
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
  /** Why it is not chosen, whatever others cost; empty: it is as wanted. */
  readonly fails: readonly string[];
}

export interface ClusterChoice {
  readonly offers: readonly AssessedOffer[];
  /** The cheapest as wanted; of equal ones the faster one, then the first; undefined: none is. */
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
      ? [`costs ${(price / (budget ?? 1)).toFixed(2)} of the budget`]
      : []),
    ...(seconds > (deadline ?? Infinity)
      ? [`takes ${(seconds / (deadline ?? 1)).toFixed(2)} of the time`]
      : []),
  ];
  return { ...offer, seconds, price, fails };
}
