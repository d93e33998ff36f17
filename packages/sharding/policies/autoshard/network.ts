// AutoShard's policy network (Zha et al., KDD 2022, section 3.3). The state is the output of a
// two-layer LSTM over the vector of the table and the share of tables placed so far. A device is
// represented by the sum of its tables' vectors, its predicted cost and its bytes. The score of a
// device is computed from state, device and their product; the value of the state from the state
// alone.
//
// T = steps, B = episodes in parallel, D = devices, H = columns of states and devices (64).

import type { Kernels, Tensor } from "../../../../internal.ts";
import { vectorColumns } from "../cost-model.ts";
import { LayersPass, type LayersSpec, layerShapes } from "../dense-layers.ts";
import { Parameters } from "../parameters.ts";
import { LstmPass, type LstmSpec, lstmShapes } from "./lstm.ts";

/** H */
const columns = 2 * vectorColumns;
/** Inputs of a device besides its vectors: cost and bytes. */
export const deviceNumbers = 2;

const place: LayersSpec = { name: "auto.place", widths: [1, vectorColumns], reluLast: false };
const device: LayersSpec = {
  name: "auto.device",
  widths: [deviceNumbers, vectorColumns],
  reluLast: false,
};
const score: LayersSpec = {
  name: "auto.score",
  widths: [3 * columns, 128, 128, 64, 1],
  reluLast: false,
};
const value: LayersSpec = { name: "auto.value", widths: [columns, 64, 1], reluLast: false };
const memories: readonly LstmSpec[] = [
  { name: "auto.lstm.0", columns },
  { name: "auto.lstm.1", columns },
];

export const autoNetworkShapes = [
  ...[place, device, score, value].flatMap(layerShapes),
  ...memories.flatMap(lstmShapes),
];

export class AutoNetwork {
  readonly parameters: Parameters;
  readonly kernels: Kernels;

  constructor(kernels: Kernels, seed: number) {
    this.kernels = kernels;
    this.parameters = new Parameters(kernels, autoNetworkShapes, seed);
  }

  /** Allocates a pass for episodes of T steps. */
  pass(of: EpisodeShape): AutoPass {
    return new AutoPass(this.kernels, this.parameters, of);
  }
}

export interface EpisodeShape {
  readonly steps: number;
  readonly episodes: number;
  readonly devices: number;
  /**
   * Whether the pass plays, step by step; otherwise it evaluates all steps at once, for training.
   */
  readonly isPlayed: boolean;
}

/** Inputs of the network at a step. */
export interface AutoInputs {
  /** (B,E): vectors of the tables. */
  readonly tables: Tensor;
  /** (B,1): the share of the tables that are placed. */
  readonly placed: Tensor;
  /** (B D,E): sums of the vectors of the devices' tables. */
  readonly sums: Tensor;
  /** (B D,2): cost and bytes of the devices. */
  readonly numbers: Tensor;
}

/**
 * One run of the network over episodes: forward step by step or over all steps, then backward over
 * all steps.
 */
class AutoPass {
  readonly #kernels: Kernels;
  readonly #of: EpisodeShape;
  readonly #place: LayersPass;
  readonly #placeStep: LayersPass;
  readonly #memories: readonly LstmPass[];
  /** Scores and values of one step, or of all steps. */
  readonly #rows: RowsPass;
  /** (T B,H): inputs of the first layer of the LSTM, and states. */
  readonly #inputs: Tensor;
  readonly #states: Tensor;
  readonly #placed: Tensor;

  constructor(kernels: Kernels, parameters: Parameters, of: EpisodeShape) {
    const { steps, episodes, devices } = of;
    const rows = steps * episodes;
    this.#kernels = kernels;
    this.#of = of;
    this.#place = new LayersPass(kernels, parameters, place, rows);
    this.#placeStep = new LayersPass(kernels, parameters, place, episodes);
    this.#memories = memories.map((own) => new LstmPass(kernels, parameters, own, of));
    this.#rows = new RowsPass(kernels, parameters, of.isPlayed ? episodes : rows, devices);
    this.#inputs = kernels.tensor([rows, columns]);
    this.#states = kernels.tensor([rows, columns]);
    this.#placed = kernels.tensor([rows, vectorColumns]);
  }

  /** Returns the scores (B D) of the devices at a step. Call it for steps in order, from 0. */
  scores(step: number, of: AutoInputs): Float32Array {
    const state = this.#stateOf(step, of.tables, this.#placeStep.forward(of.placed));
    return this.#kernels.read(this.#rows.forward(state, of.sums, of.numbers).scores);
  }

  /** Returns scores (T B D) and values (T B) of all steps; the inputs are concatenated by step. */
  forward(of: AutoInputs): { scores: Float32Array; values: Float32Array } {
    const kernels = this.#kernels;
    const { steps, episodes } = this.#of;
    kernels.copy(this.#placed, this.#place.forward(of.placed));
    for (let step = 0; step < steps; step++) {
      const part = (t: Tensor) => kernels.part(t, step * episodes, episodes);
      this.#stateOf(step, part(of.tables), part(this.#placed));
    }
    const { scores, values } = this.#rows.forward(this.#states, of.sums, of.numbers);
    return { scores: kernels.read(scores), values: kernels.read(values) };
  }

  /** Adds the gradients of the last `forward` to the parameters', from dScores and dValues. */
  backward(dScores: Float32Array, dValues: Float32Array): void {
    const kernels = this.#kernels;
    const rows = this.#of.steps * this.#of.episodes;
    const [dStates, dInputs] = [kernels.tensor([rows, columns]), kernels.tensor([rows, columns])];
    this.#rows.backward(dStates, dScores, dValues);
    for (const memory of [...this.#memories].reverse()) {
      memory.backward(dInputs, dStates);
      kernels.copy(dStates, dInputs);
    }
    const dPlaced = kernels.tensor([rows, vectorColumns]);
    kernels.copyColumns(dPlaced, 0, dInputs, vectorColumns, vectorColumns);
    this.#place.backward(dPlaced);
  }

  #stateOf(step: number, tables: Tensor, placed: Tensor): Tensor {
    const kernels = this.#kernels;
    const { episodes } = this.#of;
    const part = (t: Tensor) => kernels.part(t, step * episodes, episodes);
    const inputs = part(this.#inputs);
    kernels.copyColumns(inputs, 0, tables, 0, vectorColumns);
    kernels.copyColumns(inputs, vectorColumns, placed, 0, vectorColumns);
    let state = inputs;
    for (const memory of this.#memories) state = memory.step(step, state);
    kernels.copy(part(this.#states), state);
    return part(this.#states);
  }
}

/** Scores and values of S states, each with D devices. */
class RowsPass {
  readonly #kernels: Kernels;
  readonly #states: number;
  readonly #devices: number;
  readonly #device: LayersPass;
  readonly #score: LayersPass;
  readonly #value: LayersPass;
  /**
   * (S D,H): the state of each row, the device, and their product; `#beside` (S D,3H) concatenates
   * them.
   */
  readonly #state: Tensor;
  readonly #own: Tensor;
  readonly #product: Tensor;
  readonly #beside: Tensor;
  readonly #ones: readonly [Tensor, Tensor];

  constructor(kernels: Kernels, parameters: Parameters, states: number, devices: number) {
    const rows = states * devices;
    const made = () => kernels.tensor([rows, columns]);
    this.#kernels = kernels;
    this.#states = states;
    this.#devices = devices;
    this.#device = new LayersPass(kernels, parameters, device, rows);
    this.#score = new LayersPass(kernels, parameters, score, rows);
    this.#value = new LayersPass(kernels, parameters, value, states);
    [this.#state, this.#own, this.#product] = [made(), made(), made()];
    this.#beside = kernels.tensor([rows, 3 * columns]);
    this.#ones = [kernels.tensor([devices, 1]), kernels.tensor([1, devices])];
    for (const ones of this.#ones) kernels.fill(ones, 1);
  }

  forward(states: Tensor, sums: Tensor, numbers: Tensor): { scores: Tensor; values: Tensor } {
    const kernels = this.#kernels;
    const [s, d] = [this.#states, this.#devices];
    // Repeats each state once for each device.
    const each = kernels.reshape(this.#state, [s, d, columns]);
    kernels.products(each, this.#ones[0], kernels.reshape(states, [s, 1, columns]), "ab");
    kernels.copyColumns(this.#own, 0, sums, 0, vectorColumns);
    const told = this.#device.forward(numbers);
    kernels.copyColumns(this.#own, vectorColumns, told, 0, vectorColumns);
    kernels.multiply(this.#product, this.#state, this.#own);
    for (const [i, part] of [this.#state, this.#own, this.#product].entries()) {
      kernels.copyColumns(this.#beside, i * columns, part, 0, columns);
    }
    return { scores: this.#score.forward(this.#beside), values: this.#value.forward(states) };
  }

  /** Writes dStates (S,H). Tables' vectors, costs and bytes are data, without gradients. */
  backward(dStates: Tensor, dScores: Float32Array, dValues: Float32Array): void {
    const kernels = this.#kernels;
    const [s, d] = [this.#states, this.#devices];
    const made = () => kernels.tensor([s * d, columns]);
    const dScore = kernels.tensor([s * d, 1]);
    kernels.write(dScore, dScores);
    const dBeside = kernels.tensor([s * d, 3 * columns]);
    this.#score.backward(dScore, dBeside);
    const [dState, dOwn, dProduct, more] = [made(), made(), made(), made()];
    for (const [i, part] of [dState, dOwn, dProduct].entries()) {
      kernels.copyColumns(part, 0, dBeside, i * columns, columns);
    }
    kernels.multiply(more, dProduct, this.#own);
    kernels.add(dState, dState, more);
    kernels.multiply(more, dProduct, this.#state);
    kernels.add(dOwn, dOwn, more);
    const dTold = kernels.tensor([s * d, vectorColumns]);
    kernels.copyColumns(dTold, 0, dOwn, vectorColumns, vectorColumns);
    this.#device.backward(dTold);
    const dValue = kernels.tensor([s, 1]);
    kernels.write(dValue, dValues);
    this.#value.backward(dValue, dStates);
    const summed = kernels.tensor([s, columns]);
    const [whole, each] = [
      kernels.reshape(summed, [s, 1, columns]),
      kernels.reshape(dState, [s, d, columns]),
    ];
    kernels.products(whole, this.#ones[1], each, "ab");
    kernels.add(dStates, dStates, summed);
  }
}
