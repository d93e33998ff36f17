// Copies of columns between tensors, gathered so that a step with many tables makes few calls of a
// kernel: consecutive copies between the same two tensors are one call.

import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";

export class ColumnCopies {
  readonly #kernels: Pick<Kernels, "copyRuns">;
  #out: Tensor | undefined;
  #from: Tensor | undefined;
  /** Three numbers for each range of columns, as `copyRuns` takes them. */
  #runs: number[] = [];

  constructor(kernels: Pick<Kernels, "copyRuns">) {
    this.#kernels = kernels;
  }

  /** out[:, outFirst .. +columns] = from[:, fromFirst .. +columns], at the latest when flushed. */
  add(out: Tensor, outFirst: number, from: Tensor, fromFirst: number, columns: number): void {
    if (out !== this.#out || from !== this.#from) this.flush();
    [this.#out, this.#from] = [out, from];
    this.#runs.push(outFirst, fromFirst, columns);
  }

  flush(): void {
    if (this.#out !== undefined && this.#from !== undefined) {
      this.#kernels.copyRuns(this.#out, this.#from, new Int32Array(this.#runs));
    }
    [this.#out, this.#from, this.#runs] = [undefined, undefined, []];
  }
}
