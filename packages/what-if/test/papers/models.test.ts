// Models of papers as jobs: the figures that the papers state hold for the jobs.

import test from "ava";
import { InvalidOptionError, modelSize, resolveJob } from "../../../../internal.ts";
import { paperModel, paperModels } from "../../papers/models.ts";

/** Largest distance from a figure of a paper, as a share of it. */
const tolerance = 0.02;

for (const paper of paperModels) {
  test(`${paper.name} has its paper's parameters, operations, layers and means`, (t) => {
    const options = paperModel(paper.name);
    const { model, data } = resolveJob(options);
    if (model.kind !== "dlrm" || data.kind !== "synthetic") throw new TypeError("another kind");
    const near = (what: string, got: number, stated: number) => {
      t.log(`${what}: ${got}, stated ${stated}`);
      t.true(Math.abs(got / stated - 1) <= tolerance, `${what}: ${got}, not ${stated}`);
    };
    const { tables, bottom, top } = model;
    const meanOf = (values: readonly number[]) => {
      return values.reduce((sum, value) => sum + value, 0) / values.length;
    };
    const parameters = tables.map(({ rows, dim }) => rows * dim);
    near("parameters", tables.length * meanOf(parameters), paper.parameters);
    if (paper.megaflops !== undefined) {
      near("MFLOPs of a sample", modelSize(options.model).flops / 1e6, paper.megaflops);
    }
    const dims = tables.map(({ dim }) => dim);
    near("mean columns", meanOf(dims), paper.dims[2]);
    t.true(Math.min(...dims) >= paper.dims[0] && Math.max(...dims) <= paper.dims[1]);
    const bags = Object.values(data.perFeature ?? {}).map(({ idsPerBag: bag }) => {
      return bag !== undefined && "mean" in bag ? bag.mean : 0;
    });
    near("mean ids of a bag", meanOf(bags), paper.pooling);
    const layers = [...bottom, ...top.slice(0, -1)];
    t.is(layers.length, paper.layers);
    near("mean width of a layer", meanOf(layers), paper.width);
    t.is(data.batchSize, 128 * paper.batch);
  });
}

test("a paper's model for fewer devices has fewer samples, and fewer rows on request", (t) => {
  const whole = resolveJob(paperModel("model-a"));
  const small = resolveJob(paperModel("model-a", { devices: 8, rows: 1 / 16 }));
  t.is(small.data.batchSize, whole.data.batchSize / 16);
  const rows = ({ model }: typeof whole) => model.tables.reduce((sum, own) => sum + own.rows, 0);
  t.true(Math.abs(rows(small) / (rows(whole) / 16) - 1) < 0.001);
  t.deepEqual(
    small.model.tables.map(({ dim }) => dim),
    whole.model.tables.map(({ dim }) => dim),
  );
});

test("a paper's model with more tables has as many more parameters, and its operations", (t) => {
  const sizesOf = (tables: number) => {
    const { model } = resolveJob(paperModel("model-i", { tables }));
    const parameters = model.tables.reduce((sum, own) => sum + own.rows * own.dim, 0);
    return { tables: model.tables.length, parameters, flops: modelSize(model).flops };
  };
  const [one, three] = [sizesOf(1), sizesOf(3)];
  t.is(three.tables, 3 * one.tables);
  t.true(Math.abs(three.parameters / (3 * one.parameters) - 1) < 0.001);
  t.true(Math.abs(three.flops / one.flops - 1) < 0.05, `${three.flops}, ${one.flops}`);
});

test("an unknown name of a paper's model is refused, with a list of the known names", (t) => {
  const error = t.throws(() => paperModel("model-b"), { instanceOf: InvalidOptionError });
  t.regex(error.message, /model-a, model-f, model-i.*got `model-b`/);
});
